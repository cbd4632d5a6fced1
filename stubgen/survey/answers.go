package survey

import (
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/stubgen"
)

// What is asked about functions, by their numbers, and about text.

// Object is what the survey is of.
func (s *Survey) Object() *stubgen.Object { return s.obj }

// NoEntry is why function i is not patched at its entry, whatever there is room for;
// ReasonNone if it may be.
func (s *Survey) NoEntry(i int) ledger.Reason {
	traits := s.facts[i].traits
	switch excluded := s.obj.Functions[i].Excluded; {
	case excluded != ledger.ReasonNone:
		return excluded
	case traits&isColdPart != 0:
		return ledger.ReasonColdPart
	case traits&isGoexit != 0:
		return ledger.ReasonTrampoline
	case traits&isMisplaced != 0:
		return ledger.ReasonInsideInstruction
	case s.tooManyEntries():
		return ledger.ReasonUndecodable
	case s.debugged(i):
		return ledger.ReasonDebugged
	}
	return ledger.ReasonNone
}

// Start is the link-time address of a function's window: behind an endbr64, and a
// signature.
func (s *Survey) Start(i int) uint64 { return s.obj.Functions[i].Addr + uint64(s.facts[i].start) }

// Targeted says who branches to a byte strictly inside a function's window: its own
// body, or others.
func (s *Survey) Targeted(i int) (own, others bool) {
	t := s.facts[i].targeted
	return t&fromOwnBody != 0, t&fromElsewhere != 0
}

// Loops lists the branches of a function's own to its entry.
func (s *Survey) Loops(i int) []Site { return s.loops[i] }

// LoopsByTable reports whether a jump table leads back to the entry.
func (s *Survey) LoopsByTable(i int) bool { return s.facts[i].traits&loopsByTable != 0 }

// Inside lists the branches between the bytes of a function's window.
func (s *Survey) Inside(i int) []Arrival { return s.inside[i] }

// HasGap reports whether some bytes of a function do not decode.
func (s *Survey) HasGap(i int) bool { return s.facts[i].traits&hasGap != 0 }

// IsStraight reports whether a function decodes without a gap, and has neither calls nor
// jumps that are not direct, system calls, or what cannot move.
func (s *Survey) IsStraight(i int) bool {
	return s.facts[i].traits&(hasCall|hasIndirectJump|hasSystemCall|hasUnmovable|hasGap) == 0
}

// IsClosed reports whether the last instruction of a function does not go on behind
// it.
func (s *Survey) IsClosed(i int) bool { return s.facts[i].traits&isClosed != 0 }

// IsAlone reports whether a function decodes without a gap, and shares no byte with
// another.
func (s *Survey) IsAlone(i int) bool {
	return s.facts[i].traits&(isNested|isOverlapped|hasGap) == 0 && !s.holdsEntry(i)
}

// holdsEntry reports whether another function starts in function i.
func (s *Survey) holdsEntry(i int) bool {
	f := &s.obj.Functions[i]
	return i+1 < len(s.obj.Functions) && s.obj.Functions[i+1].Addr < f.Addr+f.Size
}

// IsPart reports whether a function is a cold part of another.
func (s *Survey) IsPart(i int) bool { return isPart(s.obj, i) || s.facts[i].traits&isColdPart != 0 }

// Owner is the function that function i is a cold part of; i itself if it is none, or of
// several, or nobody tells whose.
func (s *Survey) Owner(i int) int {
	if to, ok := s.owner[i]; ok && s.IsPart(i) && !s.IsPart(to) {
		return to
	}
	return i
}

// MayGiveWay reports whether instructions of a function may move for a neighbour's
// sake: it decodes without a gap, shares no byte with another, all ways into it are
// known, and nobody debugs it.
func (s *Survey) MayGiveWay(i int) bool {
	const no = hasIndirectJump | hasSystemCall | hasUnmovable | hasGap | isMisplaced | isGoexit | isNested | isOverlapped | sharesTable
	f := &s.obj.Functions[i]
	switch {
	case f.Excluded != ledger.ReasonNone && f.Excluded != ledger.ReasonColdPart, f.LSDA:
		return false
	case uint64(len(s.obj.Body(i))) != f.Size, s.facts[i].traits&no != 0, s.facts[i].start > endbrLen:
		return false
	}
	return !s.debugged(i) && !s.holdsEntry(i)
}

// Untouched reports whether nothing arrives in [low, high), or near it, but at
// entries.
func (s *Survey) Untouched(low, high uint64) bool { return s.entries.untouched(low, high) }

// UsesGS reports whether any function of the object, fully decoded, uses the
// GS segment, by which each thread would find its counters, or sets its base.
func (s *Survey) UsesGS() bool { return s.gs }
