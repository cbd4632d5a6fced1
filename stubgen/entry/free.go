package entry

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/survey"
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

// newFreeText collects what the plans leave free, with up to workers goroutines.
func newFreeText(s *survey.Survey, plans []Plan, workers int) *freeText {
	o := s.Object()
	f := &freeText{runs: make([]freeRun, 0, 2*len(plans)+len(o.Text)+1)} // what is not used is never touched
	type gap struct {
		lo, hi uint64
		last   bool
	}
	gaps := make([]gap, 0, len(plans)+1) // they may be padding
	covered, window := uint64(0), uint64(0)
	closed := false // what ends at covered does not go on into what follows
	for i := range plans {
		fn, p := &o.Functions[i], &plans[i]
		if closed && fn.Addr > max(covered, window) {
			gaps = append(gaps, gap{max(covered, window), fn.Addr, fn.Excluded == ledger.ReasonInitFini})
		}
		if end := fn.Addr + fn.Size; end > covered {
			covered, closed = end, s.IsClosed(i)
		}
		if p.Counted() {
			window = max(window, p.Start+stubgen.WindowSize)
			f.add(deadRun(s, p))
		}
	}
	if code := o.Code(covered); closed && code != nil {
		gaps = append(gaps, gap{max(covered, window), covered + uint64(len(code)), true})
	}
	padding := make([]freeRun, len(gaps))
	parallel.Ranges(len(gaps), 1024, workers, func(_, first, end int) {
		for i := first; i < end; i++ {
			padding[i] = paddingRun(s, gaps[i].lo, gaps[i].hi, gaps[i].last)
		}
	})
	for _, r := range padding {
		f.add(r)
	}
	for _, t := range o.Text {
		if t.Tail {
			f.add(tailRun(s, t))
		}
	}
	slices.SortFunc(f.runs, func(a, b freeRun) int { return cmp.Compare(a.lo, b.lo) })
	return f
}

func (f *freeText) add(r freeRun) {
	if r.lo < r.hi {
		f.runs = append(f.runs, r)
	}
}

// paddingRun is the padding from lo on, up to hi at most. Where compilers align
// functions only int3 is taken for it: an unknown function may start there. The
// last of its section, in front of .fini or of nothing, may be followed by
// zeros.
func paddingRun(s *survey.Survey, lo, hi uint64, last bool) freeRun {
	at := lo
	var in x86.Inst
	for at < hi && hi <= lo+2*alignment { // more is no alignment: who knows what it is
		code := s.Object().Code(at)
		if x86.Decode(code, &in) != nil || code[0] != opInt3 && (in.Kind != x86.Nop || at%alignment == 0) {
			break
		}
		at += uint64(in.Len)
	}
	at = min(at, hi)
	for last && at < min(hi, lo+alignment) && bytes.HasPrefix(s.Object().Code(at), []byte{0}) {
		at++
	}
	if at <= lo || !s.Untouched(lo, at) {
		return freeRun{}
	}
	return freeRun{lo, at, NoHost}
}

// tailRun is what a short branch may reach of the rest of a segment's last page.
func tailRun(s *survey.Survey, t stubgen.Segment) freeRun {
	const near = 4 * alignment
	for _, b := range t.Code {
		if b != t.Code[0] || b != 0 && b != opInt3 {
			return freeRun{}
		}
	}
	hi := min(t.End(), t.Addr+near)
	if !s.Untouched(t.Addr, hi) {
		return freeRun{}
	}
	return freeRun{t.Addr, hi, NoHost}
}

// deadRun is the body that p moves away, behind the window.
func deadRun(s *survey.Survey, p *Plan) freeRun {
	i := int(p.Function)
	fn := &s.Object().Functions[i]
	lo, hi := p.Start+stubgen.WindowSize, fn.Addr+fn.Size
	switch {
	case p.Tactic != ledger.TacticWholeBody:
		return freeRun{}
	case !s.IsAlone(i):
		return freeRun{}
	case lo+islandSize > hi || !s.Untouched(lo, hi) || s.Object().MayBeHeld(lo, hi):
		return freeRun{}
	}
	return freeRun{lo, hi, p.Function}
}

// reach is where a short branch that ends at end leads, both ends included.
func reach(end uint64) (low, high uint64) { return end - 128, end + 127 }

// from is the number of the first run that ends behind addr.
func (f *freeText) from(addr uint64) int {
	i, _ := slices.BinarySearchFunc(f.runs, addr, func(r freeRun, addr uint64) int {
		if r.hi <= addr {
			return -1
		}
		return 1
	})
	return i
}

// take finds room for an island that a short branch that ends at end reaches,
// in padding rather than in a body.
func (f *freeText) take(end uint64) (at uint64, host int32, ok bool) {
	low, high := reach(end)
	best := -1
	for i := f.from(low); i < len(f.runs) && f.runs[i].lo <= high; i++ {
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
	f.cut(best, at, at+islandSize)
	return at, r.host, true
}

// claim takes [lo, hi) out if all of it is free padding.
func (f *freeText) claim(lo, hi uint64) bool {
	i := f.from(lo)
	if i == len(f.runs) || f.runs[i].lo > lo || hi > f.runs[i].hi || f.runs[i].host != NoHost {
		return false
	}
	f.cut(i, lo, hi)
	return true
}

// cut takes [lo, hi) out of run i.
func (f *freeText) cut(i int, lo, hi uint64) {
	r := f.runs[i]
	var rest []freeRun
	if r.lo < lo {
		rest = append(rest, freeRun{r.lo, lo, r.host})
	}
	if hi < r.hi {
		rest = append(rest, freeRun{hi, r.hi, r.host})
	}
	f.runs = slices.Replace(f.runs, i, i+1, rest...)
}

// give takes back what an attempt that failed had taken.
func (f *freeText) give(r freeRun) {
	i := f.from(r.lo)
	if i > 0 && f.runs[i-1].hi == r.lo && f.runs[i-1].host == r.host {
		i--
		r.lo = f.runs[i].lo
		f.runs = slices.Delete(f.runs, i, i+1)
	}
	if i < len(f.runs) && f.runs[i].lo == r.hi && f.runs[i].host == r.host {
		f.runs[i].lo = r.lo
		return
	}
	f.runs = slices.Insert(f.runs, i, r)
}
