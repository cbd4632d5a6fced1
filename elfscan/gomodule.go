package elfscan

import "debug/elf"

// goModule is what the runtime knows of the object, runtime.moduledata, as far
// as it serves to find where entries of a Go table count from, and to be sure of
// it. It begins with a pointer to the table; since Go 1.16 these are at offsets
// of their own.
type goModule struct{ low, high, text uint64 }

const (
	goModuleLow  = 160 // the first function's address
	goModuleHigh = 168 // the end of the last
	goModuleText = 176
	goModuleSize = 184
)

// goText finds the start of the text for tab.
//
// The words stand in data that is writable, or was before relocation. Where a
// linker leaves those of position-independent files to the relocations they are 0.
func (f *file) goText(tab *goTable, dyn *dynamic) (text uint64, ok bool) {
	first, last := tab.entry(0)-tab.text, tab.entry(tab.n)-tab.text
	holds := func(m goModule) bool {
		return m.low == m.text+first && m.high == m.text+last && f.text.has(m.low) && f.text.has(m.high-1)
	}
	for _, at := range f.words(elf.PF_W, func(v uint64) bool { return v == tab.addr }) {
		b, err := f.readAddr(at, goModuleSize, "Go module")
		if err != nil {
			continue
		}
		if m := (goModule{le.Uint64(b[goModuleLow:]), le.Uint64(b[goModuleHigh:]), le.Uint64(b[goModuleText:])}); holds(m) {
			return m.text, true
		}
	}
	if dyn == nil {
		return 0, false
	}
	for _, m := range f.relocatedModules(tab.addr, dyn.rela) {
		if holds(m) {
			return m.text, true
		}
	}
	return 0, false
}

// relocatedModules is goModule by the relocations of words that point at a table.
func (f *file) relocatedModules(addr uint64, rela table) []goModule {
	var starts []uint64
	f.relative(rela, func(at, v uint64) {
		if v == addr && len(starts) < maxWords {
			starts = append(starts, at)
		}
	})
	if len(starts) == 0 {
		return nil
	}
	modules := make([]goModule, len(starts))
	f.relative(rela, func(at, v uint64) {
		for i, start := range starts {
			switch at - start {
			case goModuleLow:
				modules[i].low = v
			case goModuleHigh:
				modules[i].high = v
			case goModuleText:
				modules[i].text = v
			}
		}
	})
	return modules
}

// relative calls use for each relocation by the load address: the word at gets
// the address v.
func (f *file) relative(t table, use func(at, v uint64)) {
	off, err := f.locate(t.addr, t.size, "relocations")
	if err != nil {
		return // has been told
	}
	_ = f.entries(off, t.size, relaSize, "relocations", func(b []byte) {
		if elf.R_X86_64(le.Uint32(b[8:])) == elf.R_X86_64_RELATIVE {
			use(le.Uint64(b), le.Uint64(b[16:]))
		}
	})
}
