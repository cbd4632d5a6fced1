package survey

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/stubgen"
)

// CallSize is the length of the calls that the survey notes: `call rel32` without
// a prefix, and `jmp rel32` out of a function.
const CallSize = 5

// Call is a direct call, or a tail call, at link-time address At in function From to
// the entry of function To, or to a jump of the PLT that leads there for good.
type Call struct {
	At       uint64
	From, To int32
}

// note records a call at pc of function i, if it is one of an entry and calls are noted.
func (w *sweep) note(i int, pc, target uint64) {
	if w.s.index == nil {
		return
	}
	to := w.s.index.Find(target)
	if to < 0 || w.s.obj.Functions[to].Excluded != ledger.ReasonNone { // a PLT is told by its FDE
		to = w.s.index.Find(bySlot(w.s.obj, target))
	}
	if to >= 0 {
		w.calls = append(w.calls, Call{pc, int32(i), int32(to)})
	}
}

// bySlot is where code at target leads that is a jump of the PLT, `jmp *slot(%rip)` behind
// an endbr64 and a bnd, if nobody is going to change the slot; 0: it is none.
func bySlot(o *stubgen.Object, target uint64) uint64 {
	code := o.Code(target)
	whole := len(code)
	code = bytes.TrimPrefix(bytes.TrimPrefix(code, endbr64), []byte{prefixBnd})
	if len(code) < jumpSlot || code[0] != 0xff || code[1] != 0x25 {
		return 0
	}
	slot := target + uint64(whole-len(code)) + jumpSlot + uint64(int64(int32(binary.LittleEndian.Uint32(code[2:]))))
	if b := o.Constant(slot, 8); b != nil {
		return binary.LittleEndian.Uint64(b) - o.Bias
	}
	return 0
}

const (
	prefixBnd = 0xf2
	jumpSlot  = 6 // bytes of a jmp *slot(%rip)
)

// inOrder sorts the calls of one function. The sweep sees tail calls behind calls that
// stand a little further on.
func inOrder(calls []Call) {
	slices.SortFunc(calls, func(a, b Call) int { return cmp.Compare(a.At, b.At) })
}

// Calls goes through the noted calls (Object.NoteCalls) in the order of From. It
// leaves out what may be none, or must stay.
func (s *Survey) Calls() iter.Seq[Call] {
	return func(yield func(Call) bool) {
		for c, sure := range s.NotedCalls() {
			if sure && !yield(c) {
				return
			}
		}
	}
}

// NotedCalls goes through all noted calls, in the order of From, and says of each
// whether it is one for sure, and need not stay.
func (s *Survey) NotedCalls() iter.Seq2[Call, bool] {
	const doubtful = hasGap | isNested | isOverlapped | isMisplaced
	return func(yield func(Call, bool) bool) {
		for c := range s.PossibleCalls() {
			sure := s.facts[c.From].traits&doubtful == 0 && s.FixedIn(c.At, c.At+CallSize) == ledger.ReasonNone
			if !yield(c, sure) {
				return
			}
		}
	}
}

// PossibleCalls is NotedCalls for whom it is all the same whether they are calls for sure.
func (s *Survey) PossibleCalls() iter.Seq[Call] {
	return func(yield func(Call) bool) {
		for _, run := range s.calls {
			for _, c := range run {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// IsTail reports whether a noted call is a jump.
func (s *Survey) IsTail(c Call) bool { return s.obj.Code(c.At)[0] == opJmp }

const opJmp = 0xe9
