// Package cputime is the file beside a count table that says where the program's CPU time
// went: samples by function, as hotspots run --time takes them (docs/time.md).
//
// It is a file of its own, and no section of the table: another process writes it, at other
// moments, and it has functions of objects that are not in the ledger. Whoever knows nothing
// of it reads the table as ever.
package cputime

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/dynprof/dynprof/internal/table/beside"
)

// Version is that of the format.
const Version = 1

// suffix is what the file's name has more than the table's.
const suffix = ".time"

// fileHead is what the file begins with.
const fileHead = `{"dynprof_time":`

// PathOf is where the times of the table at a path are.
func PathOf(table string) string { return table + suffix }

// File is what it holds. Numbers of samples; each stands for a period of CPU time.
type File struct {
	Version int    `json:"dynprof_time"`
	Table   string `json:"table"`     // nonce of the count table, hex digits
	Period  uint64 `json:"period_ns"` // CPU time of a thread from one sample to the next
	Kernel  bool   `json:"kernel"`    // time in the kernel was sampled, too
	Ended   bool   `json:"ended"`     // the sampling has

	InKernel  uint64 `json:"in_kernel"` // in [kernel]
	Own       uint64 `json:"own"`       // in dynprof's code in the program, but for stubs
	Guessed   uint64 `json:"guessed"`   // of functions, in code that only its process could tell of, which had ended
	Planner   uint64 `json:"planner"`   // in processes of dynprof's
	Elsewhere uint64 `json:"elsewhere"` // in programs that it executed, and that are not counted

	// Records of the whole run that found no room, times that the kernel stopped the samples,
	// and CPUs that came meanwhile.
	Lost      uint64 `json:"lost"`
	Throttled uint64 `json:"throttled"`
	NewCPUs   int    `json:"new_cpus"`

	Functions []Function `json:"functions"`
}

// Function is a function with its samples. One without address is code of an object in no
// function that is known.
type Function struct {
	Number  int    `json:"number"` // in the table's ledger; -1: it is not there
	Object  string `json:"object"` // path, or a name in brackets
	BuildID string `json:"build_id,omitempty"`
	Address uint64 `json:"address"` // ELF virtual address
	Size    uint32 `json:"size,omitempty"`
	Name    string `json:"name,omitempty"` // as in the file
	Samples uint64 `json:"samples"`
}

// Errors of reading.
var (
	ErrNone    = errors.New("no CPU time was sampled") // there is no such file, or of another table
	errDamaged = errors.New("a damaged file of CPU times")
)

// Total is the samples of the program itself: its functions', libraries', the kernel's for it.
func (f *File) Total() uint64 {
	n := f.InKernel
	for i := range f.Functions {
		n += f.Functions[i].Samples
	}
	return n
}

// Duration is the CPU time that so many samples stand for, ns.
func (f *File) Duration(samples uint64) uint64 { return samples * f.Period }

// Read reads the times of a table, whose nonce is given. Without any the error is ErrNone.
func Read(table string, nonce [16]byte) (*File, error) {
	return beside.Read(PathOf(table), nonce, ErrNone, Parse, func(f *File) string { return f.Table })
}

// Parse reads the format. Sums of what it holds do not overflow.
func Parse(b []byte) (*File, error) {
	var f File
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if f.Version > Version {
		return nil, fmt.Errorf("a file of CPU times of version %d: this hotspots knows %d", f.Version, Version)
	}
	const mostPeriod = 1e9
	if f.Version < 1 || f.Period == 0 || f.Period > mostPeriod || f.NewCPUs < 0 {
		return nil, errDamaged
	}
	left := uint64(math.MaxInt64) / f.Period
	take := func(n uint64) bool {
		ok := n <= left
		left -= min(n, left)
		return ok
	}
	ok := take(f.InKernel) && take(f.Own) && take(f.Guessed) && take(f.Planner) && take(f.Elsewhere)
	for i := range f.Functions {
		ok = ok && f.Functions[i].Number >= -1 && take(f.Functions[i].Samples)
	}
	if !ok {
		return nil, errDamaged
	}
	return &f, nil
}

// Write puts the times beside the table at a path: at once, in place of older ones. A file of
// that name that is none of these stays, and is an error.
func (f *File) Write(table string, nonce [16]byte) error {
	f.Version, f.Table = Version, beside.Nonce(nonce)
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	// One function a line.
	text := strings.ReplaceAll(string(b), `{"number":`, "\n"+`{"number":`) + "\n"
	return beside.Write(PathOf(table), fileHead, "CPU times", text)
}

// Copy copies the times of one table to the place of another's, a copy of it, if there are any.
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

// Remove removes the times of a table that is removed.
func Remove(table string) { beside.Remove(PathOf(table), fileHead) }
