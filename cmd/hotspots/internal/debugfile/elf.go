// Package debugfile finds what is told of an object outside of what is loaded: symbols of
// separate files of debug information, below /usr/lib/debug, by .gnu_debuglink, or from a
// debuginfod server, and those in .gnu_debugdata.
//
// It reads what others may have made to harm: no byte is believed, and no more memory is
// taken than these bounds say. (debug/elf is not used: it copies names of
// sections without a bound.)
package debugfile

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Bounds of what is read.
const (
	maxSections = 1 << 16
	maxNames    = 1 << 20 // bytes of the names of sections
	maxCopies   = 8 << 20 // of all of them together, as each is copied
	maxSmall    = 64 << 10
	maxTable    = 128 << 20 // of symbols
	maxStrings  = 512 << 20 // of their names
)

var (
	errDamaged = errors.New("truncated or damaged ELF file")
	le         = binary.LittleEndian
)

// file is an ELF file of which the section headers have been read.
type file struct {
	io.ReaderAt
	size     int64
	sections []elf.Section64
	names    []byte
}

// open reads the section headers of an ELF file for x86-64.
func open(r io.ReaderAt, size int64) (*file, error) {
	var h elf.Header64
	f := &file{ReaderAt: r, size: size}
	var err error
	if err := f.struc(0, &h); err != nil {
		return nil, err
	}
	const entry = 64 // of Elf64_Shdr
	if string(h.Ident[:4]) != elf.ELFMAG || h.Ident[elf.EI_CLASS] != byte(elf.ELFCLASS64) || h.Ident[elf.EI_DATA] != byte(elf.ELFDATA2LSB) || elf.Machine(h.Machine) != elf.EM_X86_64 {
		return nil, errors.New("not an ELF file for x86-64")
	}
	if h.Shoff == 0 {
		return f, nil
	}
	if h.Shentsize != entry || h.Shoff > uint64(size) {
		return nil, errDamaged
	}
	count, strings := uint64(h.Shnum), uint32(h.Shstrndx)
	var first elf.Section64
	if err := f.struc(int64(h.Shoff), &first); err != nil {
		return nil, err
	}
	if count == 0 { // more than fit the header
		count = first.Size
	}
	if strings == uint32(elf.SHN_XINDEX) {
		strings = first.Link
	}
	if count > maxSections || count*entry > uint64(size) {
		return nil, errDamaged
	}
	f.sections = make([]elf.Section64, count)
	if err := f.struc(int64(h.Shoff), f.sections); err != nil {
		return nil, err
	}
	if uint64(strings) < count {
		if f.names, err = f.content(&f.sections[strings], maxNames); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *file) struc(at int64, into any) error {
	n := binary.Size(into)
	if at < 0 || at > f.size || int64(n) > f.size-at {
		return errDamaged
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, at); err != nil {
		return err
	}
	_, err := binary.Decode(b, le, into)
	return err
}

// content reads a section of no more than most bytes.
func (f *file) content(s *elf.Section64, most uint64) ([]byte, error) {
	switch {
	case elf.SectionType(s.Type) == elf.SHT_NOBITS:
		return nil, nil
	case s.Off > uint64(f.size) || s.Size > uint64(f.size)-s.Off:
		return nil, errDamaged
	case s.Size > most:
		return nil, fmt.Errorf("a section of %d MB is more than the %d MB that are read", s.Size>>20, most>>20)
	}
	b := make([]byte, s.Size)
	_, err := f.ReadAt(b, int64(s.Off))
	return b, err
}

// Check refuses a file that debug/elf would take much memory for: it copies the names of
// sections and dynamic symbols, which may overlap (a file of 1 MB has it take 3.75 GB), and
// unpacks what is loaded, too, which nothing else does.
func Check(r io.ReaderAt, size int64) error {
	f, err := open(r, size)
	if err != nil {
		return err
	}
	left := uint64(maxCopies)
	for i := range f.sections {
		s := &f.sections[i]
		if !copied(&left, f.names, s.Name) {
			return errors.New("the names of its sections are too long")
		}
		if flags := elf.SectionFlag(s.Flags); flags&elf.SHF_COMPRESSED != 0 && flags&elf.SHF_ALLOC != 0 {
			return errDamaged
		}
		if elf.SectionType(s.Type) == elf.SHT_DYNSYM && uint64(s.Link) < uint64(len(f.sections)) {
			if err := f.checkDynamic(s, &f.sections[s.Link]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *file) checkDynamic(symbols, strings *elf.Section64) error {
	table, err := f.content(symbols, maxTable)
	if err != nil {
		return err
	}
	names, err := f.content(strings, maxStrings)
	if err != nil {
		return err
	}
	left := maxCopies + uint64(len(names))*2 // linkers let one name be the end of another
	for ; len(table) >= elf.Sym64Size; table = table[elf.Sym64Size:] {
		if !copied(&left, names, le.Uint32(table)) {
			return errors.New("the names of its symbols are too long")
		}
	}
	return nil
}

// copied takes the length of a name from what may be copied; false if it is more.
func copied(left *uint64, names []byte, at uint32) bool {
	if uint64(at) >= uint64(len(names)) {
		return true
	}
	n := bytes.IndexByte(names[at:], 0)
	if n < 0 {
		n = len(names) - int(at)
	}
	if uint64(n) > *left {
		return false
	}
	*left -= uint64(n)
	return true
}

// section is the section of that name; nil if there is none.
func (f *file) section(name string) *elf.Section64 {
	for i := range f.sections {
		if at := uint64(f.sections[i].Name); at < uint64(len(f.names)) {
			if rest, ok := bytes.CutPrefix(f.names[at:], []byte(name)); ok && (len(rest) == 0 || rest[0] == 0) {
				return &f.sections[i]
			}
		}
	}
	return nil
}

// named is the content of a section of that name, uncompressed; nil if there is none.
func (f *file) named(name string, most uint64) ([]byte, error) {
	s := f.section(name)
	if s == nil {
		return nil, nil
	}
	return f.content(s, most)
}

// buildID is that of the file, behind a note's header {u32 name size, size, type; "GNU\0"}.
func (f *file) buildID() string {
	b, err := f.named(".note.gnu.build-id", maxSmall)
	const head = 16
	if err != nil || len(b) < head || !bytes.HasPrefix(b[12:], []byte("GNU\x00")) {
		return ""
	}
	size := min(uint64(le.Uint32(b[4:])), uint64(len(b)-head))
	return hex.EncodeToString(b[head : head+size])
}

// link is the file of debug information that a file names, and its CRC-32, which stands behind
// the name, aligned to 4 bytes.
func (f *file) link() (name string, sum uint32) {
	b, err := f.named(".gnu_debuglink", maxSmall)
	n := bytes.IndexByte(b, 0)
	if at := (n + 4) &^ 3; err == nil && n > 0 && at+4 <= len(b) {
		return string(b[:n]), le.Uint32(b[at:])
	}
	return "", 0
}

// Symbols are names of functions by link-time address, the best of each first: global
// before weak before local, without a leading underscore, the shortest, the first in the
// alphabet, as elfscan has them.
type Symbols map[uint64][]string

// symbols reads .symtab; nil if there is none.
func (f *file) symbols() (Symbols, error) {
	i := slices.IndexFunc(f.sections, func(s elf.Section64) bool { return elf.SectionType(s.Type) == elf.SHT_SYMTAB })
	if i < 0 || uint64(f.sections[i].Link) >= uint64(len(f.sections)) {
		return nil, nil
	}
	table, err := f.content(&f.sections[i], maxTable)
	if err != nil {
		return nil, err
	}
	names, err := f.content(&f.sections[f.sections[i].Link], maxStrings)
	if err != nil {
		return nil, err
	}
	return decode(table, string(names)), nil
}

type candidate struct {
	name string
	rank int
}

// maxName is how long a name may be: they overlap, so that all together could be more than
// the file.
const maxName = 64 << 10

// decode reads entries {u32 name; u8 info, other; u16 section; u64 value, size}.
func decode(table []byte, names string) Symbols {
	all := map[uint64][]candidate{}
	const entry = elf.Sym64Size
	for ; len(table) >= entry; table = table[entry:] {
		kind, bind := elf.ST_TYPE(table[4]), elf.ST_BIND(table[4])
		at, section, value := le.Uint32(table), elf.SectionIndex(le.Uint16(table[6:])), le.Uint64(table[8:])
		if kind != elf.STT_FUNC && kind != elf.STT_GNU_IFUNC || section == elf.SHN_UNDEF || uint64(at) >= uint64(len(names)) {
			continue
		}
		name := names[at:]
		end := strings.IndexByte(name[:min(len(name), maxName)], 0)
		if end <= 0 {
			continue
		}
		rank := map[elf.SymBind]int{elf.STB_GLOBAL: 0, elf.STB_WEAK: 1}
		r, ok := rank[bind]
		if !ok {
			r = 2
		}
		all[value] = append(all[value], candidate{name[:end], r})
	}
	symbols := make(Symbols, len(all))
	for addr, list := range all {
		slices.SortFunc(list, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(underscores(a.name), underscores(b.name)), cmp.Compare(len(a.name), len(b.name)), strings.Compare(a.name, b.name))
		})
		for _, c := range list {
			if !slices.Contains(symbols[addr], c.name) {
				symbols[addr] = append(symbols[addr], c.name)
			}
			if len(symbols[addr]) == maxAliases {
				break
			}
		}
	}
	return symbols
}

const maxAliases = 256 // of one address

func underscores(name string) int {
	if strings.HasPrefix(name, "_") {
		return 1
	}
	return 0
}
