package survey

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/stubgen"
)

// rseqSignature is the length of what the kernel looks for in front of an abort
// handler (rseq(2)).
const rseqSignature = 4

// fix gathers what must stay: what the object says, and its restartable
// sequences. In one of these the kernel leads a thread that it interrupted to
// the abort handler only while the thread is at the addresses that the
// descriptor tells: in a stub it would go on, perhaps on another CPU. The
// instruction in front, which announces the sequence, stays, too: the kernel
// forgets that if it interrupts the thread between the two, on a jump back.
func (s *Survey) fix() {
	s.fixed = slices.Clone(s.obj.Fixed)
	for _, r := range s.obj.Restartable {
		s.fixed = append(s.fixed,
			stubgen.Fixed{Low: r.Start - 1, High: r.End, Why: ledger.ReasonRestartable},
			stubgen.Fixed{Low: r.Abort - rseqSignature, High: r.Abort, Why: ledger.ReasonRestartable})
		s.entries.touch(r.Abort)
		s.hit(windowHit{target: r.Abort, who: fromElsewhere})
	}
	slices.SortFunc(s.fixed, func(a, b stubgen.Fixed) int { return cmp.Compare(a.Low, b.Low) })
	s.fixed = disjoint(s.fixed)
}

// disjoint cuts from each range, in order of Low, what those before it cover.
func disjoint(list []stubgen.Fixed) []stubgen.Fixed {
	kept, end := list[:0], uint64(0)
	for _, f := range list {
		if f.Low = max(f.Low, end); f.Low < f.High {
			kept, end = append(kept, f), f.High
		}
	}
	return kept
}

// FixedIn is why something in [low, high) must stay, ReasonNone if nothing must.
func (s *Survey) FixedIn(low, high uint64) ledger.Reason {
	i, _ := slices.BinarySearchFunc(s.fixed, high, func(f stubgen.Fixed, high uint64) int { return cmp.Compare(f.Low, high) })
	if i == 0 || s.fixed[i-1].High <= low {
		return ledger.ReasonNone
	}
	return s.fixed[i-1].Why
}

// debugged reports whether somebody watches function i who may stop at its lines.
// There he would write over the jump, and step from line to line by way of a
// stub, which has none.
func (s *Survey) debugged(i int) bool {
	f := &s.obj.Functions[i]
	k, _ := slices.BinarySearch(s.obj.Lines, f.Addr)
	return k < len(s.obj.Lines) && s.obj.Lines[k] < f.Addr+f.Size
}
