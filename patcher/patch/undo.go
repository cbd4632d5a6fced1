package patch

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
)

// Undo is what takes a change of text back. It has the layout of struct dp_undo
// in libdynprof/resident/texts/undos.h.
type Undo struct {
	At       uint32 // offset from the start of the text's pages
	Group    uint32 // as those of a Patch
	Needs    uint32
	Moved    Span  // what runs elsewhere from At on
	Len      uint8 // of Old and New
	Kind     Kind
	Old, New [mostUndone]byte
}

// UndoSize is the size of an Undo in memory.
const UndoSize = 28

// UndoText is a run of pages with what takes its changes back. It has the layout of
// struct dp_undo_text in libdynprof/resident/texts/undos.h; addresses are run addresses.
type UndoText struct {
	Start, Size  uint64
	File, Offset uint64 // NUL-terminated name, where in the file the pages are
	Undos        uint64
	Count        uint32 // of them
	Prot         uint32
	Extent
}

// Extent is what a list of changes reaches.
type Extent struct {
	Longest                 uint64 // bytes that the longest of them reaches
	Functions, FunctionsEnd uint32 // their groups, and those that they need, are among these
}

// Span is a number of bytes of text in 16 bits: up to 32,767 as it is, more than that, up
// to 2 GB, in units of 64 KB, rounded up.
type Span uint16

// How a Span has many bytes.
const (
	SpanUnits = 0x8000 // the bit that says so
	SpanUnit  = 1 << 16
)

// SpanOf is the span of n bytes.
func SpanOf(n uint64) Span {
	if n < SpanUnits {
		return Span(n)
	}
	return SpanUnits | Span(min((n+SpanUnit-1)/SpanUnit, SpanUnits-1))
}

// Bytes is the number of bytes, rounded up.
func (s Span) Bytes() uint64 {
	if s&SpanUnits == 0 {
		return uint64(s)
	}
	return uint64(s&^SpanUnits) * SpanUnit
}

// UndoTextSize is the size of an UndoText in memory.
const UndoTextSize = 64

// mostUndone is the length of the longest patch of a function.
const mostUndone = 6

// AppendUndos adds what takes back the patches and calls of a text that starts
// at start, in the order of their addresses; patches are in that order, and it puts calls
// into it. Patches of no function are sites.
func AppendUndos(list []Undo, start x86.RunAddr, patches []Patch, calls []Call) []Undo {
	// They are sorted but where functions overlap, which costs one pass.
	slices.SortFunc(calls, func(a, b Call) int { return cmp.Compare(a.At, b.At) })
	for len(patches) > 0 || len(calls) > 0 {
		if len(calls) == 0 || len(patches) > 0 && patches[0].At-start < x86.RunAddr(calls[0].At) {
			list = append(list, undoPatch(&patches[0], start))
			patches = patches[1:]
		} else {
			list = append(list, undoCall(&calls[0]))
			calls = calls[1:]
		}
	}
	return list
}

func undoPatch(p *Patch, start x86.RunAddr) Undo {
	u := Undo{At: uint32(p.At - start), Group: p.Group, Needs: p.Needs, Moved: max(p.Moved, Span(p.Len)), Len: uint8(p.Len), Kind: p.Kind}
	copy(u.Old[:], p.Old[:p.Len])
	copy(u.New[:], p.New[:p.Len])
	if p.Group == NoGroup || p.Group == SignalSites {
		u.Kind = KindSite
	}
	return u
}

func undoCall(c *Call) Undo {
	const field = 4
	u := Undo{At: c.At, Group: c.Group, Needs: NoGroup, Moved: field, Len: field, Kind: KindCall}
	for i := range field {
		u.Old[i], u.New[i] = byte(c.Old>>(8*i)), byte(c.New>>(8*i))
	}
	return u
}

// ExtentOf is the extent of a list.
func ExtentOf(list []Undo) Extent {
	e := Extent{Functions: NoGroup}
	for i := range list {
		e.Longest = max(e.Longest, list[i].Moved.Bytes())
		e.reach(list[i].Group)
		e.reach(list[i].Needs)
	}
	e.Functions = min(e.Functions, e.FunctionsEnd)
	return e
}

func (e *Extent) reach(group uint32) {
	if group < SignalSites {
		e.Functions = min(e.Functions, group)
		e.FunctionsEnd = max(e.FunctionsEnd, group+1)
	}
}
