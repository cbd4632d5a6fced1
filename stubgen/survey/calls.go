package survey

import (
	"cmp"
	"iter"
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
)

// CallSize is the length of the calls that the survey notes: `call rel32` without
// a prefix, and `jmp rel32` out of a function.
const CallSize = 5

// Call is a direct call, or a tail call, at link-time address At in function From to
// the entry of function To.
type Call struct {
	At       uint64
	From, To int32
}

// inOrder sorts the calls of one function. The sweep sees tail calls behind calls that
// stand a little further on.
func inOrder(calls []Call) {
	slices.SortFunc(calls, func(a, b Call) int { return cmp.Compare(a.At, b.At) })
}

// Calls goes through the noted calls (Object.NoteCalls) in the order of From. It
// leaves out what may be none, or must stay.
func (s *Survey) Calls() iter.Seq[Call] {
	const doubtful = hasGap | isNested | isOverlapped | isMisplaced
	return func(yield func(Call) bool) {
		for _, run := range s.calls {
			for _, c := range run {
				if s.facts[c.From].traits&doubtful == 0 && s.FixedIn(c.At, c.At+CallSize) == ledger.ReasonNone && !yield(c) {
					return
				}
			}
		}
	}
}
