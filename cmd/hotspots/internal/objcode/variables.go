package objcode

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// Variable is data that an object's symbols name.
type Variable struct {
	Addr uint64 // link-time
	Size uint64
	Name string
	// Constant: it lies where nothing can be written.
	Constant bool
}

// Bounds of what is read of symbols: files may have been made to harm.
const (
	symbolSize    = 24 // of Elf64_Sym
	mostSymbols   = 64 << 20
	mostNames     = 256 << 20
	mostVariables = 1 << 20
	longestName   = 4 << 10
)

// Variables are those of an object's file, by address, if it is still the one that was counted.
// One of several at an address is there once, under the name that comes first.
func Variables(o *layout.Object) ([]Variable, error) {
	file, _, err := open(o)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f, err := parse(file)
	if err != nil {
		return nil, err
	}
	list, err := variables(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	return list, nil
}

func variables(f *elf.File) (list []Variable, err error) {
	defer func() {
		if bug := recover(); bug != nil { // debug/elf may panic over a file that is damaged
			err = fmt.Errorf("damaged: %v", bug)
		}
	}()
	for _, s := range f.Sections {
		if s.Type != elf.SHT_SYMTAB && s.Type != elf.SHT_DYNSYM || uint64(s.Link) >= uint64(len(f.Sections)) {
			continue
		}
		names := f.Sections[s.Link]
		if s.FileSize > mostSymbols || names.FileSize > mostNames {
			return nil, fmt.Errorf("%d bytes of symbols, and %d of their names, are more than are read", s.FileSize, names.FileSize)
		}
		table, err := s.Data()
		if err != nil {
			return nil, err
		}
		text, err := names.Data()
		if err != nil {
			return nil, err
		}
		le := binary.LittleEndian
		for ; len(table) >= symbolSize && len(list) < mostVariables; table = table[symbolSize:] {
			name, size := uint64(le.Uint32(table)), le.Uint64(table[16:])
			if elf.ST_TYPE(table[4]) != elf.STT_OBJECT || elf.SectionIndex(le.Uint16(table[6:])) == elf.SHN_UNDEF || size == 0 || name >= uint64(len(text)) {
				continue
			}
			one := text[name:min(uint64(len(text)), name+longestName)]
			if end := bytes.IndexByte(one, 0); end > 0 {
				section := int(le.Uint16(table[6:]))
				constant := section < len(f.Sections) && f.Sections[section].Flags&elf.SHF_WRITE == 0
				list = append(list, Variable{le.Uint64(table[8:]), size, string(one[:end]), constant})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Variable) int { return cmp.Compare(a.Addr, b.Addr) })
	return slices.CompactFunc(list, func(a, b Variable) bool { return a.Addr == b.Addr }), nil
}
