// Package objcode reads the instructions of objects from their files.
package objcode

import (
	"debug/elf"
	"encoding/hex"
	"fmt"
	"iter"
	"os"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/x86"
)

// Image is the executable segments of a file.
type Image struct{ Segments []Segment }

// Segment is code at a link-time address.
type Segment struct {
	Addr   uint64
	Code   []byte
	Offset uint64 // in the file
}

// Load reads the file of an object, if it is still the one that was counted.
func Load(o *layout.Object) (*Image, error) {
	file, scan, err := open(o)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	segments, err := readSegments(file, scan, true)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	return &Image{segments}, nil
}

// readSegments reads what of a file is code, or what is not.
func readSegments(file *os.File, scan *elfscan.Object, code bool) (all []Segment, err error) {
	for _, s := range scan.Segments {
		if (s.Flags&elf.PF_X != 0) != code {
			continue
		}
		b := make([]byte, s.FileSize)
		if _, err := file.ReadAt(b, int64(s.Offset)); err != nil {
			return nil, err
		}
		all = append(all, Segment{s.Addr, b, s.Offset})
	}
	return all, nil
}

// Open opens the file of an object, if it is still the one that was counted.
func Open(o *layout.Object) (*os.File, error) {
	file, _, err := open(o)
	return file, err
}

// open opens the file of an object, and scans it, if it is still the one that was counted.
func open(o *layout.Object) (*os.File, *elfscan.Object, error) {
	file, err := os.Open(o.Path)
	if err != nil {
		return nil, nil, err
	}
	scan, err := scanned(file, o)
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, scan, nil
}

func scanned(file *os.File, o *layout.Object) (*elfscan.Object, error) {
	fi, err := file.Stat()
	if err != nil {
		return nil, err
	}
	scan, err := elfscan.Scan(file, fi.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	if hex.EncodeToString(scan.BuildID) != o.BuildID {
		return nil, fmt.Errorf("%s is not the file that was counted, which had the build ID %s", o.Path, o.BuildID)
	}
	return scan, nil
}

// Instructions yields the instructions in size bytes at a link-time address, as far as they
// can be decoded.
func (m *Image) Instructions(addr uint64, size uint32) iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		for _, s := range m.Segments {
			if addr < s.Addr || addr-s.Addr >= uint64(len(s.Code)) {
				continue
			}
			code := s.Code[addr-s.Addr:]
			code = code[:min(len(code), int(size))]
			var in x86.Inst
			for len(code) > 0 && x86.Decode(code, &in) == nil {
				if !yield(addr, code[:in.Len]) {
					return
				}
				code, addr = code[in.Len:], addr+uint64(in.Len)
			}
			return
		}
	}
}

// StubSlot is the word that the PLT entry at an address jumps by, perhaps behind endbr64.
func (m *Image) StubSlot(addr uint64) (uint64, bool) {
	const longest = 2 * x86.MaxLen
	for at, code := range m.Instructions(addr, longest) {
		var in x86.Inst
		if x86.Decode(code, &in) != nil || in.Far() {
			return 0, false
		}
		if in.Kind == x86.JmpInd && in.RIPRel() {
			return in.RIPTarget(code, at), true
		}
		if in.Kind != x86.Endbr {
			return 0, false
		}
	}
	return 0, false
}
