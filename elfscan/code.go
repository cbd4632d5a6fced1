package elfscan

import (
	"debug/elf"
	"strings"

	"github.com/dynprof/dynprof/internal/ledger"
)

// Range is the addresses [Low, High).
type Range struct{ Low, High uint64 }

// code returns where functions may lie: the sections of code but those of the
// linkage table and of the startup code that a linker puts together. Without
// section headers data may lie in front of the code and behind it, so that only
// what is between functions is surely code.
func (f *file) code(functions []Function) (all []Range) {
	known := func(s *section) bool {
		return strings.HasPrefix(s.name, ".plt") || s.name == ".iplt" || s.name == ".init" || s.name == ".fini"
	}
	for _, s := range f.sectionSpans(func(s *section) bool { return !known(s) }) {
		all = append(all, Range{s.lo, s.hi})
	}
	if len(f.sections) > 0 {
		return all
	}
	for _, s := range f.text {
		r := Range{s.hi, s.lo}
		for i := range functions {
			if fn := &functions[i]; s.lo <= fn.Addr && fn.Addr < s.hi && fn.Excluded != ledger.ReasonPLT {
				r = Range{min(r.Low, fn.Addr), max(r.High, fn.Addr+fn.Size)}
			}
		}
		if r.Low < r.High {
			all = append(all, r)
		}
	}
	return all
}

// dataInText returns the sections of data in executable segments.
func (f *file) dataInText() (all []Range) {
	var data spans
	for i := range f.sections {
		s := &f.sections[i]
		if elf.SectionFlag(s.Flags)&(elf.SHF_ALLOC|elf.SHF_EXECINSTR) != elf.SHF_ALLOC {
			continue
		}
		for _, t := range f.text {
			if lo, hi := max(s.Addr, t.lo), min(addSat(s.Addr, s.Size), t.hi); lo < hi {
				data = append(data, span{lo, hi})
			}
		}
	}
	for _, s := range data.sorted() {
		all = append(all, Range{s.lo, s.hi})
	}
	return all
}
