package elfscan

import (
	"debug/elf"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/internal/ledger"
)

// symbol is a function symbol: STT_FUNC or STT_GNU_IFUNC, defined in an
// executable segment. STT_NOTYPE is left out: in the text of glibc, libcrypto
// and node these are labels inside functions, second names of a typed entry,
// tables, marks of the linker, and the entry point.
type symbol struct {
	addr    uint32 // as file.rel
	size    uint32
	name    uint32 // offset in its table's strings
	nameLen uint16
	rank    uint8         // table, binding and type: the lower the better
	reason  ledger.Reason // why the name must not be patched
}

func (s *symbol) key() uint32 { return s.addr }

// monoLabel is what Mono exports of a library that it has compiled ahead of time.
const monoLabel = "mono_aot_file_info"

// Ranks of names: all of .symtab before all of .dynsym; in each the resolver's
// own name before that of the indirect function that it serves; of these
// global before weak before local.
const (
	rankSymtab = 0
	rankWeak   = 1 << 0
	rankLocal  = 1 << 1
	rankIFunc  = 1 << 2
	rankDynsym = 1 << 3
	rankGo     = 1 << 4 // of the Go table: only if no symbol names the address
)

func (s *symbol) ifunc() bool  { return s.rank&rankIFunc != 0 }
func (s *symbol) dynsym() bool { return s.rank&rankDynsym != 0 }
func (s *symbol) golang() bool { return s.rank&rankGo != 0 }

// source says which table s is of.
func (s *symbol) source() ledger.Source {
	switch {
	case s.golang():
		return ledger.SourceGopclntab
	case s.dynsym():
		return ledger.SourceDynsym
	}
	return ledger.SourceSymtab
}

// symbols are the symbols of a file.
type symbols struct {
	list           []symbol // by address
	symtab, dynsym string   // their strings
	mono           bool     // there is the one by which Mono finds what it compiled ahead of time
	goNames        string   // those of the Go table
	dynamic        []uint32 // of each dynamic symbol file.rel+1, 0 if it is no code
	labels         []uint32 // exported code without a function type
	builtins       uint32   // file.rel+1 of V8's, 0 if there are none
}

// grow makes room for all symbols of a table of size bytes: what is not used is
// never touched, and takes no memory.
func (t *symbols) grow(size, file uint64) {
	t.list = slices.Grow(t.list, int(min(size, file)/symSize))
}

// name returns the name of s.
func (t *symbols) name(s *symbol) string {
	strs := t.symtab
	switch {
	case s.dynsym():
		strs = t.dynsym
	case s.golang():
		strs = t.goNames
	}
	return strs[s.name:][:s.nameLen]
}

// symbolTables reads .symtab, the dynamic symbols, and the functions of Go.
func (f *file) symbolTables(dyn *dynamic) *symbols {
	t := &symbols{}
	if err := f.readSymtab(t); err != nil {
		f.problem(err)
	}
	if dyn != nil && dyn.symtab != 0 {
		if err := f.readDynsym(t, dyn); err != nil {
			f.problem(err)
		}
	}
	if err := f.readGoTable(t, dyn); err != nil {
		f.problem(err)
	}
	sortByKey(t.list, (*symbol).key)
	return t
}

// addSymbol appends the symbol b to t, if it is a function, and returns its address
// if it is code. b is Elf64_Sym {u32 name; u8 info, other; u16 section; u64
// value, size}.
//
// The name is looked at here, while its table is in the cache: in the order
// of addresses each name would be a miss.
func (f *file) addSymbol(t *symbols, b []byte, strs string, rank uint8) (addr uint32, code bool) {
	section := elf.SectionIndex(le.Uint16(b[6:]))
	if section == elf.SHN_UNDEF || section >= elf.SHN_LORESERVE && section != elf.SHN_XINDEX {
		return 0, false
	}
	if addr, code = f.rel(le.Uint64(b[8:])); !code {
		return 0, false
	}
	typ := elf.ST_TYPE(b[4])
	if typ != elf.STT_FUNC && typ != elf.STT_GNU_IFUNC {
		if cstring(strs, uint64(le.Uint32(b)), len(builtinsLabel)+1) == builtinsLabel {
			t.builtins = addr + 1
		}
		return addr, true
	}
	switch elf.ST_BIND(b[4]) {
	case elf.STB_LOCAL:
		rank |= rankLocal
	case elf.STB_WEAK:
		rank |= rankWeak
	}
	if typ == elf.STT_GNU_IFUNC {
		rank |= rankIFunc
	}
	s := symbol{addr: addr, size: uint32(min(le.Uint64(b[16:]), math.MaxUint32)), rank: rank}
	if name := cstring(strs, uint64(le.Uint32(b)), maxSymbolName); name != "" {
		if rank&rankDynsym == 0 {
			name = stripDefaultVersion(name)
		}
		s.name, s.nameLen, s.reason = le.Uint32(b), uint16(len(name)), reasonOfName(name)
	}
	t.list = append(t.list, s)
	return addr, true
}

// stripDefaultVersion removes the version that linkers append to the names of
// default versions in .symtab: memcpy@@GLIBC_2.14.
func stripDefaultVersion(name string) string {
	name, _, _ = strings.Cut(name, "@@")
	return name
}

// readSymtab reads .symtab, if the file is not stripped.
func (f *file) readSymtab(t *symbols) error {
	for i := range f.sections {
		s := &f.sections[i]
		if elf.SectionType(s.Type) != elf.SHT_SYMTAB {
			continue
		}
		if s.Entsize != symSize || s.Link >= uint32(len(f.sections)) {
			return fmt.Errorf("%w: .symtab", ErrTruncated)
		}
		strs := &f.sections[s.Link]
		var err error
		if t.symtab, err = f.readString(strs.Off, strs.Size, ".strtab"); err != nil {
			return err
		}
		t.grow(s.Size, f.size)
		return f.entries(s.Off, s.Size, symSize, ".symtab", func(b []byte) {
			f.addSymbol(t, b, t.symtab, rankSymtab)
		})
	}
	return nil
}

// readDynsym reads the dynamic symbols.
func (f *file) readDynsym(t *symbols, dyn *dynamic) error {
	off, rest, ok := f.offset(dyn.symtab)
	if !ok {
		return fmt.Errorf("%w: dynamic symbols at address %#x", ErrTruncated, dyn.symtab)
	}
	n, err := f.dynsymCount(dyn)
	if err != nil {
		return err
	}
	n = min(n, rest/symSize)
	t.dynsym = dyn.strs
	t.dynamic = make([]uint32, 0, n)
	t.grow(n*symSize, f.size)
	return f.entries(off, n*symSize, symSize, "dynamic symbols", func(b []byte) {
		addr, code := f.addSymbol(t, b, t.dynsym, rankDynsym)
		if !code {
			t.mono = t.mono || elf.ST_TYPE(b[4]) == elf.STT_OBJECT && cstring(t.dynsym, uint64(le.Uint32(b)), len(monoLabel)+1) == monoLabel
			t.dynamic = append(t.dynamic, 0)
			return
		}
		t.dynamic = append(t.dynamic, addr+1)
		if elf.ST_TYPE(b[4]) == elf.STT_NOTYPE {
			t.labels = append(t.labels, addr)
		}
	})
}

// dynsymCount returns the number of dynamic symbols. No dynamic tag tells it:
// the section header does, or else a hash table.
func (f *file) dynsymCount(dyn *dynamic) (uint64, error) {
	for i := range f.sections {
		s := &f.sections[i]
		if elf.SectionType(s.Type) == elf.SHT_DYNSYM && s.Addr == dyn.symtab {
			return s.Size / symSize, nil
		}
	}
	if dyn.hash != 0 { // {u32 buckets, chains, …}: one chain for each symbol
		b, err := f.readAddr(dyn.hash, 8, "DT_HASH")
		if err != nil {
			return 0, err
		}
		return uint64(le.Uint32(b[4:])), nil
	}
	if dyn.gnuHash == 0 {
		return 0, nil
	}
	return f.gnuHashCount(dyn.gnuHash)
}

// gnuHashCount follows the last chain of DT_GNU_HASH to its end:
//
//	u32 buckets, first symbol, bloom words, bloom shift
//	u64 bloom[bloom words]
//	u32 bucket[buckets]    lowest symbol of the bucket, 0 if empty
//	u32 chain[]            one for each symbol from the first, bit 0 ends a bucket
func (f *file) gnuHashCount(addr uint64) (uint64, error) {
	const what = "DT_GNU_HASH"
	b, err := f.readAddr(addr, 16, what)
	if err != nil {
		return 0, err
	}
	buckets, first, bloom := uint64(le.Uint32(b)), uint64(le.Uint32(b[4:])), uint64(le.Uint32(b[8:]))
	at := addr + 16 + 8*bloom
	off, err := f.locate(at, 4*buckets, what)
	if err != nil {
		return 0, err
	}
	last := uint64(0)
	err = f.entries(off, 4*buckets, 4, what, func(b []byte) {
		last = max(last, uint64(le.Uint32(b)))
	})
	if err != nil || last < first { // no symbol is defined
		return first, err
	}
	for chain := at + 4*buckets + 4*(last-first); ; chain += 4 {
		b, err := f.readAddr(chain, 4, what)
		if err != nil {
			return 0, err
		}
		last++
		if b[0]&1 != 0 {
			return last, nil
		}
	}
}
