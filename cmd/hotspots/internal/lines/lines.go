// Package lines tells the source lines of instructions, from the DWARF line tables of files.
package lines

import (
	"cmp"
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sort"
	"time"
)

// patience is how long a unit is looked for. A file may be made such that it takes ages.
const patience = 10 * time.Second

// maxRows is how many of a function are read.
const maxRows = 1 << 20

// Rows are source lines by link-time address.
type Rows []row

type row struct {
	low, high uint64
	file      string
	line      int
}

// At is the source line of an address: a file and a number; 0 if it is not known.
func (r Rows) At(addr uint64) (file string, line int) {
	i := sort.Search(len(r), func(i int) bool { return r[i].low > addr }) - 1
	if i < 0 || addr >= r[i].high {
		return "", 0
	}
	return r[i].known()
}

// Entry is the source line of a function, of its first row: where code of another line, or
// of another function that was inlined, begins at the same address, At is that.
func (r Rows) Entry(addr uint64) (file string, line int) {
	i := sort.Search(len(r), func(i int) bool { return r[i].low >= addr })
	if i < len(r) && r[i].low == addr {
		return r[i].known()
	}
	return r.At(addr)
}

func (r row) known() (file string, line int) {
	if r.line <= 0 || r.file == "" {
		return "", 0
	}
	return r.file, r.line
}

// Of are the lines of the unit that has the code at entry, as far as they are of addresses
// from low to below high. Package dwarf may panic over what is damaged.
func (f *File) Of(entry, low, high uint64) (rows Rows, err error) {
	defer func() {
		if p := recover(); p != nil {
			rows, err = nil, fmt.Errorf("damaged debug information: %v", p)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", f.Path, err)
		}
	}()
	d, unit, err := f.unit(entry)
	if err != nil || unit == nil {
		return nil, err
	}
	return f.rows(d, unit, low, high)
}

// unit finds the unit that has the code at an address; nil if there is none. Each is read by
// itself: of all together the tables of abbreviations may be more than the memory has.
func (f *File) unit(addr uint64) (*dwarf.Data, *dwarf.Entry, error) {
	var failed error
	end := time.Now().Add(patience)
	for info := f.sections["info"]; len(info) > 0; {
		size := unitSize(info)
		if size > uint64(len(info)) {
			return nil, nil, errors.New("damaged debug information: a unit is larger than all")
		}
		if time.Now().After(end) {
			return nil, nil, errors.New("it takes too long to find the function's lines")
		}
		d, err := data(f.sections, info[:size])
		if err == nil {
			var entry *dwarf.Entry
			if entry, err = d.Reader().SeekPC(addr); err == nil {
				return d, entry, nil
			}
		}
		if !errors.Is(err, dwarf.ErrUnknownPC) {
			failed = err // another one may have it
		}
		info = info[size:]
	}
	return nil, nil, failed
}

// unitSize is that of the unit that b begins with, and its length field.
func unitSize(b []byte) uint64 {
	const long = 0xffffffff // the length follows, in 8 bytes
	switch {
	case len(b) < 4:
		return 4
	case binary.LittleEndian.Uint32(b) != long:
		return uint64(binary.LittleEndian.Uint32(b)) + 4
	case len(b) < 12:
		return 12
	}
	n := binary.LittleEndian.Uint64(b[4:])
	return max(n+12, n) // n where that overflows: more than there is
}

// data is the debug information of a unit.
func data(s map[string][]byte, info []byte) (*dwarf.Data, error) {
	d, err := dwarf.New(abbreviations(info, s["abbrev"]), nil, nil, info, s["line"], nil, s["ranges"], s["str"])
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"addr", "line_str", "str_offsets", "rnglists"} {
		if b := s[name]; b != nil {
			if err := d.AddSection(".debug_"+name, b); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// abbreviations cuts off what no unit needs behind its table: package dwarf reads up to an end
// that may not be there, and takes many times the memory.
func abbreviations(info, all []byte) []byte {
	const limit = 1 << 20
	return all[:min(uint64(len(all)), min(abbreviationsAt(info), uint64(len(all)))+limit)]
}

// abbreviationsAt is the offset of a unit's table.
func abbreviationsAt(info []byte) uint64 {
	c := &cursor{b: info}
	word := c.word()
	if version := c.fixed(2); version >= 5 {
		c.fixed(2) // kind of unit, size of an address
	}
	return c.fixed(word)
}

// read reads the rows of a line table. Each is of the addresses up to the next one.
func read(r *dwarf.LineReader, p paths, low, high uint64) (Rows, error) {
	var rows Rows
	var last, next dwarf.LineEntry
	for inside := false; ; inside = !last.EndSequence {
		if err := r.Next(&next); err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			return nil, err
		}
		if inside && last.Address <= next.Address && last.Address < high && next.Address >= low {
			if len(rows) == maxRows {
				return nil, errors.New("too many lines")
			}
			rows = append(rows, row{last.Address, next.Address, p.of(last.File), last.Line})
		}
		last = next
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.low, b.low) })
	return rows, nil
}

// paths is what makes the path of a file from what package dwarf says.
type paths struct {
	dir      string // of the unit
	known    map[*dwarf.LineFile]string
	absolute map[string]string // see check
}

func (p paths) of(f *dwarf.LineFile) string {
	if f == nil || f.Name == "" {
		return ""
	}
	name, ok := p.known[f]
	if !ok {
		if name, ok = p.absolute[f.Name]; !ok {
			name = f.Name
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.dir, name)
		}
		p.known[f] = name
	}
	return name
}
