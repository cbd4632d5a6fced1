// Package heat is the file beside a count table that says which pages of memory its program
// has read and written, as hotspots run --heat=pages notes them (docs/heat.md), and the shadow
// in which it does so.
package heat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/dynprof/dynprof/internal/table/beside"
)

// Version is that of the format.
const Version = 1

// PageSize is the bytes of a page.
const PageSize = 1 << pageBits

// fileHead is what the file begins with.
const fileHead = `{"dynprof_heat":`

// PathOf is where the pages of the table at a path are.
func PathOf(table string) string { return table + ".heat" }

// File is what it holds.
type File struct {
	Version  int       `json:"dynprof_heat"`
	Table    string    `json:"table"` // nonce of the count table, hex digits
	Ended    bool      `json:"ended"` // the mappings are those at the program's end, else at its start: it was killed
	Cut      bool      `json:"cut"`   // there are more mappings
	Mappings []Mapping `json:"mappings"`
	Ranges   []Range   `json:"ranges"` // by address
}

// Mapping is what is mapped somewhere.
type Mapping struct {
	Start    uint64 `json:"start"`
	End      uint64 `json:"end"`
	Offset   uint64 `json:"offset"`   // in the file
	Path     string `json:"path"`     // as /proc/PID/maps has it: empty for memory without a file
	Resident uint64 `json:"resident"` // bytes that are in memory
}

// Range is pages, one behind the other, with which the same was done.
type Range struct {
	First   uint64 `json:"page"` // address by PageSize
	Pages   uint64 `json:"pages"`
	Read    bool   `json:"read"`
	Written bool   `json:"written"`
}

// Errors of reading.
var (
	ErrNone    = errors.New("touched pages were not noted") // there is no such file, or of another table
	errDamaged = errors.New("a damaged file of touched pages")
)

// Read reads the pages of a table, whose nonce is given. Without any the error is ErrNone.
func Read(table string, nonce [16]byte) (*File, error) {
	return beside.Read(PathOf(table), nonce, ErrNone, Parse, func(f *File) string { return f.Table })
}

// Parse reads the format: mappings and ranges are by address, and none lies upon another.
func Parse(b []byte) (*File, error) {
	var f File
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if f.Version > Version {
		return nil, fmt.Errorf("a file of touched pages of version %d: this hotspots knows %d", f.Version, Version)
	}
	ok, end := f.Version == Version, uint64(0)
	for _, m := range f.Mappings {
		ok, end = ok && m.Start >= end && m.End > m.Start, m.End
	}
	const pages = shadowSize / 2
	end = 0
	for _, r := range f.Ranges {
		ok = ok && r.First >= end && r.First < pages && r.Pages > 0 && r.Pages <= pages-r.First && (r.Read || r.Written)
		end = r.First + r.Pages
	}
	if !ok {
		return nil, errDamaged
	}
	return &f, nil
}

// Write puts the file beside the table at a path.
func (f *File) Write(table string, nonce [16]byte) error {
	f.Version, f.Table = Version, beside.Nonce(nonce)
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	// One range, or mapping, a line.
	lines := strings.NewReplacer(`{"page":`, "\n"+`{"page":`, `{"start":`, "\n"+`{"start":`)
	return beside.Write(PathOf(table), fileHead, "touched pages", lines.Replace(string(b))+"\n")
}

// Copy copies the pages of one table to the place of another's, a copy of it, if there are any.
func Copy(from, to string, nonce [16]byte) error {
	f, err := Read(from, nonce)
	if errors.Is(err, ErrNone) {
		Remove(to) // of a table that was there before
		return nil
	}
	if err != nil {
		return err
	}
	return f.Write(to, nonce)
}

// Remove removes the pages of a table that is removed.
func Remove(table string) { beside.Remove(PathOf(table), fileHead) }
