package elfscan

import (
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
