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
type Image struct{ segments []segment }

type segment struct {
	addr uint64
	code []byte
}

// Load reads the file of an object, if it is still the one that was counted.
func Load(o *layout.Object) (*Image, error) {
	file, err := os.Open(o.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
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
	img := &Image{}
	for _, s := range scan.Segments {
		if s.Flags&elf.PF_X == 0 {
			continue
		}
		code := make([]byte, s.FileSize)
		if _, err := file.ReadAt(code, int64(s.Offset)); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Path, err)
		}
		img.segments = append(img.segments, segment{s.Addr, code})
	}
	return img, nil
}

// Instructions yields the instructions in size bytes at a link-time address, as far as they
// can be decoded.
func (m *Image) Instructions(addr uint64, size uint32) iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		for _, s := range m.segments {
			if addr < s.addr || addr-s.addr >= uint64(len(s.code)) {
				continue
			}
			code := s.code[addr-s.addr:]
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
