package patcher

import (
	"bytes"
	"encoding/hex"
	"io"
	"slices"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/patcher/target"
	"github.com/dynprof/dynprof/stubgen"
)

// What debuggers, and others that patch code, do to text. A debugger that has set
// a breakpoint before the planner looks will write the old byte back whenever it
// stops the program; and one that watches may set more of them at any line, also
// where a jump of ours stands, and step from line to line. So
//
//  1. the planner reads the file's bytes where memory has others, since an int3
//     hides the instruction that it stands in;
//  2. those bytes stay: nothing there is overwritten, nor moved;
//  3. under a debugger functions whose lines are known are left as they are, and
//     no function's instructions move for another's sake.

// keepChanged returns the code of segment s, which is at address at in memory, as
// the file has it. Bytes that are others in memory are to stay.
func (o *object) keepChanged(f io.ReaderAt, s *elfscan.Segment, at uint64, code []byte) ([]byte, error) {
	end := at + uint64(len(code))
	pages, err := o.target.Written(at, end)
	if err != nil { // it cannot be told: all are compared
		for page := at &^ (pageSize - 1); page < end; page += pageSize {
			pages = append(pages, page)
		}
	}
	copied := false
	page := make([]byte, pageSize)
	for _, start := range pages {
		low, high := max(start, at), min(start+pageSize, end)
		file, now := page[:high-low], code[low-at:high-at]
		if _, err := f.ReadAt(file, int64(s.Offset+low-at)); err != nil {
			return nil, err
		}
		if bytes.Equal(now, file) {
			continue
		}
		o.fixChanged(s.Addr+low-at, now, file)
		if !copied {
			code, copied = slices.Clone(code), true
		}
		copy(code[low-at:], file)
	}
	return code, nil
}

// fixChanged notes the bytes at addr in which now differs from what the file has.
func (o *object) fixChanged(addr uint64, now, file []byte) {
	for i := 0; i < len(now); i++ {
		from := i
		for i < len(now) && now[i] != file[i] {
			i++
		}
		if i > from {
			o.code.Fixed = append(o.code.Fixed, stubgen.Fixed{
				Low: addr + uint64(from), High: addr + uint64(i), Why: ledger.ReasonBytesChanged,
			})
		}
	}
}

// keepLines finds out where lines start, by the file itself or, where that does
// not tell, by the file with debugging information that distributions ship.
func (o *object) keepLines(f target.File) {
	o.readLines(f)
	if len(o.code.Lines) > 0 || len(o.scan.BuildID) < 2 {
		return
	}
	id := hex.EncodeToString(o.scan.BuildID)
	debug, err := o.target.Open("/usr/lib/debug/.build-id/" + id[:2] + "/" + id[2:] + ".debug")
	if err != nil {
		return
	}
	defer debug.Close()
	o.readLines(debug)
}

// readLines: of lines that cannot be read, since they are compressed in another way
// than by zlib, each function may have some.
func (o *object) readLines(f target.File) {
	var err error
	if o.code.Lines, err = elfscan.LineStarts(f, f.Size()); err == nil {
		return
	}
	o.code.Lines = nil
	for i := range o.code.Functions {
		o.code.Lines = append(o.code.Lines, o.code.Functions[i].Addr)
	}
}
