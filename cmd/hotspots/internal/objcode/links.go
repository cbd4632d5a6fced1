package objcode

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/table/layout"
)

// Links is what the dynamic linker is told of an object's functions.
type Links struct {
	Slots    map[uint64]Ref      // by link-time address: words of the GOT that it fills in with functions' addresses
	Exports  map[string][]Export // by name; several have different versions
	Symbolic bool                // the object's own symbols come before those of others
}

// Ref is a symbol that an object asks for.
type Ref struct {
	Name, Version string // the version is empty if it asks for none
	Own           uint64 // the object's own definition, which nobody may replace; 0 if there is none
}

// Export is the definition of a symbol.
type Export struct {
	Address   uint64 // link-time
	Version   string
	Hidden    bool // only who asks for the version gets it
	Versioned bool // the object has versions at all
	Indirect  bool // the function at the address says at run time which one it is
}

// LoadLinks reads the file of an object, if it is still the one that was counted. Of an
// object that was not to be counted no build ID is known: its file must not have changed
// since the program was started.
func LoadLinks(o *layout.Object, started time.Time) (*Links, error) {
	var file *os.File
	var err error
	if o.BuildID == "" && o.Flags&layout.ObjSelected == 0 {
		file, err = unchanged(o.Path, started)
	} else {
		file, err = Open(o)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	l, err := readLinks(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	return l, nil
}

// unchanged opens a file that has not changed since then. What packages install keeps its
// time of modification.
func unchanged(path string, since time.Time) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	fi, err := file.Stat()
	if err == nil && time.Unix(fi.Sys().(*syscall.Stat_t).Ctim.Unix()).After(since) {
		err = fmt.Errorf("%s has changed since the program was started", path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// readLinks reads the sections. debug/elf may panic over a file that is damaged.
func readLinks(file *os.File) (l *Links, err error) {
	defer func() {
		if p := recover(); p != nil {
			l, err = nil, fmt.Errorf("damaged ELF file: %v", p)
		}
	}()
	f, err := parse(file)
	if err != nil {
		return nil, err
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	l = &Links{Slots: map[uint64]Ref{}, Exports: map[string][]Export{}, Symbolic: isSymbolic(f)}
	versioned := f.SectionByType(elf.SHT_GNU_VERSYM) != nil
	for i := range symbols {
		l.export(&symbols[i], versioned)
	}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		b, err := s.Data()
		if err != nil {
			return nil, err
		}
		l.relocations(b, symbols)
	}
	return l, nil
}

func isSymbolic(f *elf.File) bool {
	symbolic, _ := f.DynValue(elf.DT_SYMBOLIC)
	flags, _ := f.DynValue(elf.DT_FLAGS)
	for _, v := range flags {
		if elf.DynFlag(v)&elf.DF_SYMBOLIC != 0 {
			return true
		}
	}
	return len(symbolic) > 0
}

// export notes a symbol that others may be given.
func (l *Links) export(s *elf.Symbol, versioned bool) {
	bind, kind := elf.ST_BIND(s.Info), elf.ST_TYPE(s.Info)
	if !defined(s) || bind == elf.STB_LOCAL || kind == elf.STT_TLS {
		return
	}
	l.Exports[s.Name] = append(l.Exports[s.Name], Export{
		Address: s.Value, Version: s.Version, Hidden: s.VersionIndex.IsHidden(), Versioned: versioned, Indirect: kind == elf.STT_GNU_IFUNC,
	})
}

func defined(s *elf.Symbol) bool { return s.Section != elf.SHN_UNDEF && s.Value != 0 }

// relocations notes the words that are filled in with functions' addresses, from entries
// of Elf64_Rela {u64 offset; u32 type, symbol; i64 addend}. Only code that calls or jumps
// by such a word asks for it.
func (l *Links) relocations(b []byte, symbols []elf.Symbol) {
	le := binary.LittleEndian
	for ; len(b) >= relaSize; b = b[relaSize:] {
		kind, index := elf.R_X86_64(le.Uint32(b[8:])), le.Uint32(b[12:])
		if kind != elf.R_X86_64_JMP_SLOT && kind != elf.R_X86_64_GLOB_DAT || index == 0 || int(index) > len(symbols) {
			continue
		}
		s := &symbols[index-1] // without the empty one
		r := Ref{Name: s.Name, Version: s.Version}
		if defined(s) && elf.ST_VISIBILITY(s.Other) == elf.STV_PROTECTED && elf.ST_TYPE(s.Info) != elf.STT_GNU_IFUNC {
			r.Own = s.Value
		}
		l.Slots[le.Uint64(b)] = r
	}
}
