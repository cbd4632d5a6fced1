package elfscan

import (
	"debug/elf"
	"slices"
)

// relocations collects the code addresses that the dynamic linker will store
// in data, and the indirect functions.
func (f *file) relocations(dyn *dynamic, t *symbols) *relocReader {
	c := &relocReader{file: f, symbols: t, stored: t.labels, rseq: map[uint64]uint64{}}
	if s := f.rseqSection(); s != nil {
		c.rseqAt, c.rseqSize = s.Addr, s.Size
	}
	if dyn != nil {
		c.rela(dyn.rela)
		if in := dyn.jmprel.addr - dyn.rela.addr; in >= dyn.rela.size { // some linkers count it in
			c.rela(dyn.jmprel)
		}
		c.relr(dyn.relr)
	} else { // a static program applies IRELATIVE by itself
		for _, s := range f.sections {
			if elf.SectionType(s.Type) == elf.SHT_RELA && elf.SectionFlag(s.Flags)&elf.SHF_ALLOC != 0 {
				c.rela(table{s.Addr, s.Size})
			}
		}
	}
	for i := range t.list {
		if s := &t.list[i]; s.ifunc() && s.dynsym() {
			c.ifuncs = append(c.ifuncs, IFunc{Name: t.name(s), Resolver: f.textLow + uint64(s.addr)})
		}
	}
	return c
}

// relocReader reads relocations one table after the other.
type relocReader struct {
	*file
	symbols *symbols
	stored  []uint32 // code addresses, as file.rel
	ifuncs  []IFunc

	rseqAt, rseqSize uint64            // section __rseq_cs, and
	rseq             map[uint64]uint64 // by address: the words stored there
}

// pointers returns what was stored, sorted and each once.
func (c *relocReader) pointers() []uint64 {
	sortByKey(c.stored, func(p *uint32) uint32 { return *p })
	c.stored = slices.Compact(c.stored)
	out := make([]uint64, len(c.stored))
	for i, p := range c.stored {
		out[i] = c.textLow + uint64(p)
	}
	return out
}

// store notes that the address v is stored in data.
func (c *relocReader) store(v uint64) {
	if p, ok := c.rel(v); ok {
		c.stored = append(c.stored, p)
	}
}

// rela reads a table of Elf64_Rela {u64 offset; u32 type, symbol; i64 addend}.
func (c *relocReader) rela(t table) {
	if t.size == 0 {
		return
	}
	off, err := c.locate(t.addr, t.size, "relocations")
	if err == nil {
		err = c.entries(off, t.size, relaSize, "relocations", c.relocation)
	}
	if err != nil {
		c.problem(err)
	}
}

func (c *relocReader) relocation(b []byte) {
	index, addend := le.Uint32(b[12:]), le.Uint64(b[16:])
	switch elf.R_X86_64(le.Uint32(b[8:])) {
	case elf.R_X86_64_RELATIVE:
		c.store(addend)
		if at := le.Uint64(b); at-c.rseqAt < c.rseqSize {
			c.rseq[at] = addend
		}
	case elf.R_X86_64_IRELATIVE:
		c.store(addend)
		c.ifuncs = append(c.ifuncs, IFunc{Slot: le.Uint64(b), Resolver: addend})
	case elf.R_X86_64_64:
		c.symbolic(index, addend)
	case elf.R_X86_64_GLOB_DAT, elf.R_X86_64_JMP_SLOT:
		c.symbolic(index, 0)
	}
}

// symbolic notes a pointer to a symbol, if it is code of this file.
func (c *relocReader) symbolic(index uint32, addend uint64) {
	if uint64(index) < uint64(len(c.symbols.dynamic)) && c.symbols.dynamic[index] != 0 {
		c.store(c.textLow + uint64(c.symbols.dynamic[index]-1) + addend)
	}
}

// relr reads a table of relative relocations, whose addends are in the words
// that they relocate. An even entry is the address of one word; an odd one is
// a bitmap of the 63 words that follow.
func (c *relocReader) relr(t table) {
	if t.size == 0 {
		return
	}
	const what = "relative relocations"
	b, err := c.readAddr(t.addr, t.size, what)
	if err != nil {
		c.problem(err)
		return
	}
	w := wordReader{file: c.file, left: c.size / 8}
	next := uint64(0)
	for ; len(b) >= relrSize; b = b[relrSize:] {
		entry := le.Uint64(b)
		if entry&1 == 0 {
			c.store(w.at(entry))
			next = entry + 8
			continue
		}
		for at := next; entry > 1; at += 8 {
			if entry >>= 1; entry&1 != 0 {
				c.store(w.at(at))
			}
		}
		next += 63 * 8
	}
}

// wordReader reads words of memory a page at a time. Their addresses rise but
// in a damaged file, where those that fall are not read.
type wordReader struct {
	*file
	left uint64 // words that may still be asked for, in all as many as the file has
	base uint64 // address of page[0]
	page []byte
	buf  [4096]byte
}

// at returns the word at addr, 0 if the file has none there.
func (w *wordReader) at(addr uint64) uint64 {
	if w.left == 0 || addr < w.base {
		return 0
	}
	w.left--
	if i := addr - w.base; i >= uint64(len(w.page)) || len(w.page)-int(i) < 8 {
		w.turn(addr)
		if len(w.page) < 8 {
			return 0
		}
	}
	return le.Uint64(w.page[addr-w.base:])
}

// turn reads the page that starts at addr, nothing if the file has none there.
func (w *wordReader) turn(addr uint64) {
	const what = "relocated words"
	off, rest, _ := w.offset(addr)
	n := min(rest, uint64(len(w.buf)))
	w.base, w.page = addr, nil
	if w.admit(off, n, what) == nil && w.fill(w.buf[:n], off, what) == nil {
		w.page = w.buf[:n]
	}
}
