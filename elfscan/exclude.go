package elfscan

import (
	"bytes"
	"cmp"
	"debug/elf"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/internal/ledger"
)

// exclude marks the entries that must never be patched.
func (f *file) exclude(o *Object, dyn *dynamic, frames []frame) {
	plt := f.pltSections()
	if len(f.sections) == 0 {
		plt = f.guessPLT(frames)
	}
	static := dyn == nil // has no DT_INIT: its names must do
	for i := range o.Functions {
		fn := &o.Functions[i]
		switch {
		case plt.has(fn.Addr):
			fn.Excluded = ledger.ReasonPLT
		case fn.Addr == o.Entry:
			fn.Excluded = ledger.ReasonStart
		case !static && (fn.Addr == dyn.initAddr || fn.Addr == dyn.finiAddr),
			static && (fn.Name == "_init" || fn.Name == "_fini"):
			fn.Excluded = ledger.ReasonInitFini
		}
	}
	if strings.HasPrefix(o.Soname, "ld-linux") {
		f.excludeLoader(o.Functions, frames)
	}
}

// V8 compiles its builtins, functions Builtins_*, into one piece of text, which is
// marked by a label. At its start it maps that again near the code that it makes,
// from the file, or, where it cannot, copies it, jumps of ours included; from then
// on it calls the one or the other (V8, CodeRange::RemapEmbeddedBuiltins).
const (
	builtinsLabel  = "v8_Default_embedded_blob_code_"
	builtinsPrefix = "Builtins_"
)

// excludeBuiltins marks V8's builtins, which start at low.
func excludeBuiltins(functions []Function, low uint64) {
	i, _ := slices.BinarySearchFunc(functions, low, func(fn Function, low uint64) int { return cmp.Compare(fn.Addr, low) })
	for ; i < len(functions) && strings.HasPrefix(functions[i].Name, builtinsPrefix); i++ {
		functions[i].Excluded = ledger.ReasonAliasedText
	}
}

// reasonOfName returns why the function of that name must not be patched.
func reasonOfName(name string) ledger.Reason {
	switch {
	case isCold(name):
		return ledger.ReasonColdPart
	case !strings.HasPrefix(name, "_"):
		return ledger.ReasonNone
	case name == "__restore_rt", name == "__restore":
		return ledger.ReasonSignalReturn
	case strings.HasPrefix(name, "_dl_runtime_"), strings.HasPrefix(name, "_dl_tlsdesc_"):
		return ledger.ReasonTrampoline
	}
	return ledger.ReasonNone
}

// isCold reports whether a name is that of the cold part that gcc or clang
// split off: foo.cold, foo.cold.12.
func isCold(name string) bool {
	end := len(name)
	for end > 0 && name[end-1] >= '0' && name[end-1] <= '9' {
		end--
	}
	if end < len(name) {
		name = strings.TrimSuffix(name[:end], ".")
	}
	return strings.HasSuffix(name, ".cold")
}

// excludeLoader finds the trampolines of a stripped dynamic linker, glibc's.
//
// _dl_runtime_resolve_* and _dl_runtime_profile_* start where the PLT has
// pushed two words. Of _dl_tlsdesc_return (mov 8(%rax), %rax; ret, perhaps
// behind endbr64), _dl_tlsdesc_undefweak and _dl_tlsdesc_dynamic each FDE
// starts where the one before ends, in the padding before its function: in
// the source, .cfi_startproc stands before .align. A jump written there would
// run over the true entry.
func (f *file) excludeLoader(functions []Function, frames []frame) {
	mark := func(d *frame) {
		fn := findFunction(functions, f.textLow+uint64(d.addr))
		if fn.Excluded == ledger.ReasonNone || fn.Excluded == ledger.ReasonColdPart {
			fn.Excluded = ledger.ReasonTrampoline
		}
	}
	chain := false // the frame before belongs to _dl_tlsdesc_*
	for i := range frames {
		d := &frames[i]
		if d.start == startResolver {
			mark(d)
		}
		aligned := (f.textLow+uint64(d.addr))%16 == 0
		if i == 0 || aligned || frames[i-1].addr+frames[i-1].size != d.addr {
			chain = false
			continue
		}
		head := &frames[i-1]
		if chain = chain || head.size == 5 || head.size == 9; chain {
			mark(head)
			mark(d)
		}
	}
}

// findFunction returns the function at addr, or nil.
func findFunction(functions []Function, addr uint64) *Function {
	i, ok := slices.BinarySearchFunc(functions, addr, func(fn Function, addr uint64) int {
		return cmp.Compare(fn.Addr, addr)
	})
	if !ok {
		return nil
	}
	return &functions[i]
}

// markResolvers marks the functions that the dynamic linker calls to choose
// the implementation of another.
func markResolvers(o *Object) {
	for _, ifunc := range o.IFuncs {
		if fn := findFunction(o.Functions, ifunc.Resolver); fn != nil {
			fn.IFuncResolver = true
		}
	}
}

// codeSections returns the ranges of the sections that hold code.
func (f *file) codeSections() spans {
	return f.sectionSpans(func(*section) bool { return true })
}

// pltSections returns those of the procedure linkage table: .plt, .plt.got,
// .plt.sec, .plt.bnd and .iplt.
func (f *file) pltSections() spans {
	return f.sectionSpans(func(s *section) bool {
		return s.name == ".plt" || strings.HasPrefix(s.name, ".plt.") || s.name == ".iplt"
	})
}

func (f *file) sectionSpans(want func(*section) bool) spans {
	var out spans
	for i := range f.sections {
		s := &f.sections[i]
		if elf.SectionFlag(s.Flags)&elf.SHF_EXECINSTR != 0 && want(s) {
			out = append(out, span{s.Addr, addSat(s.Addr, s.Size)})
		}
	}
	return out.sorted()
}

// guessPLT finds the linkage table of a file without section headers by its
// first bytes. GNU ld describes .plt, .plt.got and .plt.sec by an FDE each;
// they follow one another at the start of the text.
func (f *file) guessPLT(frames []frame) spans {
	var out spans
	end := uint64(0) // of the linkage table so far
	for i := range frames {
		d := &frames[i]
		at := f.textLow + uint64(d.addr)
		follows := i == 0 || at-end < 16
		if d.start != startPLT && !(d.start == startEntry && follows) {
			continue
		}
		if f.isPLT(at, d.start) {
			end = at + uint64(d.size)
			out = append(out, span{at, end})
		}
	}
	return out.sorted()
}

// isPLT reports whether the code at addr starts as an entry of the PLT:
//
//	ff 35 …            push link_map  first entry of .plt
//	[f3 0f 1e fa]      endbr64
//	[f2] ff 25 …       jmp *slot      .plt.got, .plt.sec
func (f *file) isPLT(addr uint64, start startKind) bool {
	b, err := f.readAddr(addr, 8, "PLT")
	if err != nil {
		return false
	}
	if start == startPLT {
		return b[0] == 0xff && b[1] == 0x35
	}
	b = bytes.TrimPrefix(b, []byte{0xf3, 0x0f, 0x1e, 0xfa})
	b = bytes.TrimPrefix(b, []byte{0xf2})
	return b[0] == 0xff && b[1] == 0x25
}
