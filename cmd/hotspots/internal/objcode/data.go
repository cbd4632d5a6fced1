package objcode

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"unicode"
	"unicode/utf8"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Data is what an object's file puts into memory besides code.
type Data struct {
	segments []Segment
	// Pointers are the words that the dynamic linker stores an address of the object in, by
	// link-time address.
	Pointers map[uint64]uint64
	// Copies are the symbols of other objects whose data the dynamic linker copies into this
	// one, by where to.
	Copies map[uint64]string
	Fixed  bool // an executable that is not position-independent: such words are as they are
}

// LoadData reads the file of an object, if it is still the one that was counted.
func LoadData(o *layout.Object) (*Data, error) {
	file, scan, err := open(o)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	d, err := readData(file, scan)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	return d, nil
}

func readData(file *os.File, scan *elfscan.Object) (d *Data, err error) {
	d = &Data{Pointers: map[uint64]uint64{}, Copies: map[uint64]string{}, Fixed: scan.Type == elf.ET_EXEC}
	if d.segments, err = readSegments(file, scan, false); err != nil {
		return nil, err
	}
	d.readPointers(file) // what cannot be read is not known
	return d, nil
}

// readPointers reads the relocations that need no symbol of another object, from sections.
func (d *Data) readPointers(file *os.File) {
	defer func() { recover() }() // debug/elf may panic over a file that is damaged
	f, err := parse(file)
	if err != nil {
		return
	}
	symbols, _ := f.DynamicSymbols()
	for _, s := range f.Sections {
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		b, err := s.Data()
		if err != nil {
			continue
		}
		le := binary.LittleEndian
		for ; len(b) >= relaSize; b = b[relaSize:] {
			at, index, addend := le.Uint64(b), le.Uint32(b[12:]), le.Uint64(b[16:])
			switch elf.R_X86_64(le.Uint32(b[8:])) {
			case elf.R_X86_64_RELATIVE:
				d.Pointers[at] = addend
			case elf.R_X86_64_64:
				if index > 0 && int(index) <= len(symbols) && defined(&symbols[index-1]) {
					d.Pointers[at] = symbols[index-1].Value + addend
				}
			case elf.R_X86_64_COPY:
				if index > 0 && int(index) <= len(symbols) {
					d.Copies[at] = symbols[index-1].Name
				}
			}
		}
	}
}

const relaSize = 24 // of Elf64_Rela

// at is what the file has from an address on.
func (d *Data) at(addr uint64) []byte {
	for i := range d.segments {
		if s := &d.segments[i]; addr >= s.Addr && addr-s.Addr < uint64(len(s.Code)) {
			return s.Code[addr-s.Addr:]
		}
	}
	return nil
}

// Pointer is what the word at an address points at, if it is known to be a pointer.
func (d *Data) Pointer(at uint64) (uint64, bool) {
	if to, ok := d.Pointers[at]; ok || !d.Fixed {
		return to, ok
	}
	b := d.at(at)
	if len(b) < 8 {
		return 0, false
	}
	to := binary.LittleEndian.Uint64(b)
	return to, to != 0
}

// All yields the words that point at something, and what: in an executable that is not
// position-independent all words of data that may.
func (d *Data) All() iter.Seq2[uint64, uint64] {
	if !d.Fixed {
		return maps.All(d.Pointers)
	}
	return func(yield func(at, to uint64) bool) {
		for at, to := range d.Pointers {
			if !yield(at, to) {
				return
			}
		}
		const word = 8
		for _, s := range d.segments {
			if s.Offset == 0 { // symbols and relocations: addresses, but no pointers
				continue
			}
			for i := 0; i+word <= len(s.Code); i += word {
				to := binary.LittleEndian.Uint64(s.Code[i:])
				if _, known := d.Pointers[s.Addr+uint64(i)]; !known && to != 0 && !yield(s.Addr+uint64(i), to) {
					return
				}
			}
		}
	}
}

// Strings of a text: it ends in a zero byte, and all else can be printed.
const (
	shortestString = 2
	longestString  = 1 << 10
)

// Text is the string at an address, if what lies there looks like one.
func (d *Data) Text(addr uint64) (string, bool) {
	b := d.at(addr)
	n := bytes.IndexByte(b[:min(len(b), longestString)], 0)
	if n < shortestString || !utf8.Valid(b[:n]) {
		return "", false
	}
	text := string(b[:n])
	for _, r := range text {
		if !unicode.IsPrint(r) && r != '\n' && r != '\t' {
			return "", false
		}
	}
	return text, true
}

// ReadProcess reads n bytes of a process's memory.
func ReadProcess(pid int, at uint64, n int) ([]byte, error) {
	mem, err := procfile.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil, err
	}
	defer mem.Close()
	b := make([]byte, n)
	_, err = io.ReadFull(io.NewSectionReader(mem, int64(at), int64(n)), b)
	return b, err
}
