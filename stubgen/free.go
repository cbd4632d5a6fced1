package stubgen

import (
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
)

// freeText is text that nothing runs any more once the plans are applied:
// padding, and bodies that have moved away. Islands stand in it.
type freeText struct {
	runs []freeRun // by address, disjoint
}

// freeRun is [lo, hi).
type freeRun struct {
	lo, hi uint64
	host   int32 // the function whose body it was, padding for none
}

// islandSize is that of the `jmp rel32` on an island.
const islandSize = 5

// newFreeText collects what the plans leave free.
func (s *Survey) newFreeText(plans []Plan) *freeText {
	f := &freeText{}
	covered, window := uint64(0), uint64(0)
	closed := false // what ends at covered does not go on into what follows
	for i := range plans {
		fn, p := &s.obj.Functions[i], &plans[i]
		if closed && fn.Addr > covered {
			f.add(s.paddingRun(max(covered, window), fn.Addr))
		}
		if end := fn.Addr + fn.Size; end > covered {
			covered, closed = end, s.facts[i].traits&isClosed != 0
		}
		if p.Counted() {
			window = max(window, p.Start+windowSize)
			f.add(s.deadRun(p))
		}
	}
	slices.SortFunc(f.runs, func(a, b freeRun) int { return int(int64(a.lo - b.lo)) })
	return f
}

func (f *freeText) add(r freeRun) {
	if r.lo+islandSize <= r.hi {
		f.runs = append(f.runs, r)
	}
}

// paddingRun is the padding from lo on. Where compilers align functions only
// int3 is taken for it: an unknown function may start there.
func (s *Survey) paddingRun(lo, hi uint64) freeRun {
	if hi > lo+2*granule { // more than alignment leaves: who knows what it is
		return freeRun{}
	}
	at := lo
	var in x86.Inst
	for at < hi {
		code := s.obj.Code(at)
		if x86.Decode(code, &in) != nil || code[0] != opInt3 && (in.Kind != x86.Nop || at%granule == 0) {
			break
		}
		at += uint64(in.Len)
	}
	if at = min(at, hi); at <= lo || !s.entries.untouched(lo, at) {
		return freeRun{}
	}
	return freeRun{lo, at, NoHost}
}

// deadRun is the body that p moves away, behind the window.
func (s *Survey) deadRun(p *Plan) freeRun {
	i := int(p.Function)
	fn := &s.obj.Functions[i]
	lo, hi := p.Start+windowSize, fn.Addr+fn.Size
	switch {
	case p.Tactic != ledger.TacticWholeBody:
		return freeRun{}
	case s.facts[i].traits&(isNested|hasGap) != 0 || i+1 < len(s.obj.Functions) && s.obj.Functions[i+1].Addr < hi:
		return freeRun{}
	case !s.entries.untouched(lo, hi):
		return freeRun{}
	}
	return freeRun{lo, hi, p.Function}
}

// take finds room for an island that a short branch that ends at end reaches,
// in padding rather than in a body.
func (f *freeText) take(end uint64) (at uint64, host int32, ok bool) {
	low, high := end-128, end+127 // of a rel8
	first, _ := slices.BinarySearchFunc(f.runs, low, func(r freeRun, low uint64) int {
		if r.hi <= low {
			return -1
		}
		return 1
	})
	best := -1
	for i := first; i < len(f.runs) && f.runs[i].lo <= high; i++ {
		r := &f.runs[i]
		if max(r.lo, low)+islandSize <= r.hi && (best < 0 || r.host == NoHost && f.runs[best].host != NoHost) {
			best = i
		}
	}
	if best < 0 {
		return 0, NoHost, false
	}
	r := f.runs[best]
	at = max(r.lo, low)
	f.cut(at, at+islandSize)
	return at, r.host, true
}

// claim takes [lo, hi) out if all of it is free padding.
func (f *freeText) claim(lo, hi uint64) bool {
	for _, r := range f.runs {
		if r.lo <= lo && hi <= r.hi && r.host == NoHost {
			f.cut(lo, hi)
			return true
		}
	}
	return false
}

// cut takes out [lo, hi), whatever of it is free.
func (f *freeText) cut(lo, hi uint64) {
	for i := 0; i < len(f.runs); i++ {
		r := f.runs[i]
		if r.hi <= lo {
			continue
		}
		if r.lo >= hi {
			return
		}
		var rest []freeRun
		if r.lo < lo {
			rest = append(rest, freeRun{r.lo, lo, r.host})
		}
		if hi < r.hi {
			rest = append(rest, freeRun{hi, r.hi, r.host})
		}
		f.runs = slices.Replace(f.runs, i, i+1, rest...)
		i += len(rest) - 1
	}
}

// give takes back what an attempt that failed had taken.
func (f *freeText) give(r freeRun) {
	i, _ := slices.BinarySearchFunc(f.runs, r.lo, func(x freeRun, lo uint64) int {
		if x.lo < lo {
			return -1
		}
		return 1
	})
	f.runs = slices.Insert(f.runs, i, r)
}
