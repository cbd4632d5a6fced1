package elfscan

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"math"
)

// Limits on what a file may ask for. The kernel accepts 64 KiB of program
// headers.
const (
	maxProgramHeaders = 65536 / progSize
	maxSectionName    = 256
	maxPath           = 4096
	maxSymbolName     = 1 << 14
)

// Sizes of the structures of a 64-bit file.
const (
	headerSize  = 64
	progSize    = 56
	sectionSize = 64
	symSize     = 24
	relaSize    = 24
	relrSize    = 8
	dynSize     = 16
)

// file is an ELF file whose headers have been read.
//
// elf.NewFile is not used: it refuses files whose section headers are damaged,
// which the kernel runs all the same, and it copies the name of each section,
// so that a file of 1 MB can make it allocate 3.7 GB.
type file struct {
	r      io.ReaderAt
	size   uint64
	budget uint64 // bytes that may still be read
	chunk  []byte // buffer of chunks

	header   elf.Header64
	progs    []elf.Prog64
	sections []section
	segments []Segment
	text     spans  // executable segments, as far as the file holds them
	textLow  uint64 // the lowest address of text
	golang   bool   // a note says that it holds a Go runtime
	problems []error
}

type section struct {
	elf.Section64
	name string
}

// open reads and checks the headers.
func open(r io.ReaderAt, size int64) (*file, error) {
	f := &file{r: r, size: uint64(max(size, 0))}
	f.budget = 2*f.size + 1<<20 // an undamaged file is read less than once
	if err := f.readHeader(); err != nil {
		return nil, err
	}
	if err := f.readProgs(); err != nil {
		return nil, err
	}
	if err := f.readSections(); err != nil {
		f.sections = nil
		f.problem(err)
	}
	return f, nil
}

func (f *file) readHeader() error {
	b := make([]byte, headerSize)
	n, err := f.r.ReadAt(b[:min(f.size, headerSize)], 0)
	if err != nil && err != io.EOF {
		return err
	}
	b = b[:n]
	if !bytes.HasPrefix(b, []byte(elf.ELFMAG)) {
		return ErrNotELF
	}
	if len(b) < headerSize {
		return fmt.Errorf("%w: ELF header", ErrTruncated)
	}
	class, data := elf.Class(b[elf.EI_CLASS]), elf.Data(b[elf.EI_DATA])
	if class == elf.ELFCLASS32 {
		return ErrClass32
	}
	decode(b, &f.header)
	if class != elf.ELFCLASS64 || data != elf.ELFDATA2LSB || elf.Machine(f.header.Machine) != elf.EM_X86_64 {
		return ErrMachine
	}
	if t := elf.Type(f.header.Type); t != elf.ET_EXEC && t != elf.ET_DYN {
		return fmt.Errorf("%w (%v)", ErrType, t)
	}
	return nil
}

func (f *file) readProgs() error {
	n := uint64(f.header.Phnum)
	if n > maxProgramHeaders || n > 0 && f.header.Phentsize != progSize {
		return fmt.Errorf("%w: program headers", ErrTruncated)
	}
	b, err := f.read(f.header.Phoff, n*progSize, "program headers")
	if err != nil {
		return err
	}
	f.progs = make([]elf.Prog64, n)
	for i := range f.progs {
		p := &f.progs[i]
		decode(b[i*progSize:], p)
		if elf.ProgType(p.Type) != elf.PT_LOAD {
			continue
		}
		if addSat(p.Vaddr, p.Memsz) == math.MaxUint64 || p.Filesz > p.Memsz {
			return fmt.Errorf("%w: segment at %#x", ErrTruncated, p.Vaddr)
		}
		f.addSegment(Segment{
			Addr: p.Vaddr, MemSize: p.Memsz,
			Offset: p.Off, FileSize: p.Filesz,
			Flags: elf.ProgFlag(p.Flags),
		})
	}
	f.setText()
	return nil
}

func (f *file) addSegment(s Segment) {
	f.segments = append(f.segments, s)
	if s.Flags&elf.PF_X == 0 || s.Offset >= f.size {
		return
	}
	text := span{s.Addr, s.Addr + min(s.FileSize, f.size-s.Offset)}
	if s.Offset == 0 { // the headers are mapped, too, and hold no code
		text.lo += headerSize
	}
	f.text = append(f.text, text)
}

// setText completes text when all segments are known.
func (f *file) setText() {
	f.text = f.text.sorted()
	if len(f.text) == 0 {
		return
	}
	f.textLow = f.text[0].lo
	if f.text[len(f.text)-1].hi-f.textLow > math.MaxUint32 {
		f.problem(fmt.Errorf("text spans more than 4 GiB from %#x: what lies further up is left out", f.textLow))
	}
}

// rel returns addr as an offset from the lowest code address, the form in
// which symbols and frames are collected; false if no code is there.
func (f *file) rel(addr uint64) (uint32, bool) {
	off := addr - f.textLow
	return uint32(off), off <= math.MaxUint32 && f.text.has(addr)
}

// readSections reads the section headers, which a file need not have.
func (f *file) readSections() error {
	h := &f.header
	if h.Shoff == 0 {
		return nil
	}
	if h.Shentsize != sectionSize {
		return fmt.Errorf("%w: section headers of %d bytes", ErrTruncated, h.Shentsize)
	}
	// A count or index that does not fit the header is in the first entry.
	b, err := f.read(h.Shoff, sectionSize, "section headers")
	if err != nil {
		return err
	}
	var first elf.Section64
	decode(b, &first)
	n, names := uint64(h.Shnum), uint64(h.Shstrndx)
	if n == 0 {
		n = first.Size
	}
	if names == uint64(elf.SHN_XINDEX) {
		names = uint64(first.Link)
	}
	if n > f.size/sectionSize {
		return fmt.Errorf("%w: %d section headers", ErrTruncated, n)
	}
	if b, err = f.read(h.Shoff, n*sectionSize, "section headers"); err != nil {
		return err
	}
	f.sections = make([]section, n)
	for i := range f.sections {
		decode(b[i*sectionSize:], &f.sections[i].Section64)
	}
	return f.nameSections(names)
}

func (f *file) nameSections(index uint64) error {
	if index >= uint64(len(f.sections)) {
		return fmt.Errorf("%w: no section %d for the names of sections", ErrTruncated, index)
	}
	table := &f.sections[index]
	if elf.SectionType(table.Type) != elf.SHT_STRTAB {
		return fmt.Errorf("%w: names of sections", ErrTruncated)
	}
	strs, err := f.readString(table.Off, table.Size, "names of sections")
	if err != nil {
		return err
	}
	for i := range f.sections {
		s := &f.sections[i]
		s.name = cstring(strs, uint64(s.Name), maxSectionName)
	}
	return nil
}

// prog returns the first program header of type t, or nil.
func (f *file) prog(t elf.ProgType) *elf.Prog64 {
	for i := range f.progs {
		if elf.ProgType(f.progs[i].Type) == t {
			return &f.progs[i]
		}
	}
	return nil
}
