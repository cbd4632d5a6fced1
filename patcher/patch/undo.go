package patch

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
)

// A text's changes are listed for the target, and in cached plans, in the order of their addresses, 8 bytes each. What a
// patch has overwritten stands in a list of its own; of calls that are led to a stub
// there are ten times as many, and what each was follows from where it is and whom it
// calls. The types have the layouts of structs in libdynprof/resident/texts/undos.h.

// Listed is a change: of a call, where CallBit is set, else of a patch.
type Listed struct {
	At uint32 // offset from the start of the text's pages
	Of uint32 // number of the Led, or the Overwritten
}

// Bits of Listed.Of.
const (
	CallBit = 1 << 31 // a call was led to a stub,
	SlotBit = 1 << 30 // which went by a slot of the PLT
)

// Overwritten is what a patch did.
type Overwritten struct {
	Group, Needs uint32 // as those of a Patch
	Moved        Span   // what runs elsewhere from there on
	Len          uint8  // of Old and New
	Kind         Kind
	Old, New     [mostUndone]byte
}

// Led is a function whose calls are led to its stub. Offsets are from the start of the
// text's pages, in 32 bits: so are displacements.
type Led struct {
	Group       uint32
	Entry, Stub uint32 // Entry: or the jump of the PLT that leads there
}

// Sizes in memory.
const (
	ListedSize      = 8
	OverwrittenSize = 24
	LedSize         = 12
)

// Undos are lists of the changes of one text.
type Undos struct {
	List        []Listed
	Overwritten []Overwritten
	Leds        []Led
}

// UndoText is a run of pages with what takes its changes back. It has the layout of
// struct dp_undo_text in libdynprof/resident/texts/undos.h; addresses are run addresses.
type UndoText struct {
	Start, Size  uint64
	File, Offset uint64 // NUL-terminated name, where in the file the pages are
	List         uint64 // of Listed
	Overwritten  uint64
	Leds         uint64
	Count        uint32 // of List
	Prot         uint32
	Extent
	Base uint32 // what is added to groups in the lists
	_    uint32
	_    [2]uint64 // other pages that the lists are on; none here
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
const UndoTextSize = 104

// mostUndone is the length of the longest patch of a function.
const mostUndone = 6

// Note lists the patches and calls of a text that starts at start; patches are in the
// order of their addresses, and it puts calls into it. Patches of no function are sites.
func (u *Undos) Note(start x86.RunAddr, patches []Patch, calls []Call) {
	// They are sorted but where functions overlap, which costs one pass.
	slices.SortFunc(calls, func(a, b Call) int { return cmp.Compare(a.At, b.At) })
	leds := u.newLeds(calls)
	for len(patches) > 0 || len(calls) > 0 {
		if len(calls) == 0 || len(patches) > 0 && patches[0].At-start < x86.RunAddr(calls[0].At) {
			u.List = append(u.List, Listed{uint32(patches[0].At - start), uint32(len(u.Overwritten))})
			u.Overwritten = append(u.Overwritten, overwritten(&patches[0]))
			patches = patches[1:]
		} else {
			u.List = append(u.List, Listed{calls[0].At, CallBit | slotBit(&calls[0]) | leds.of(u, &calls[0])})
			calls = calls[1:]
		}
	}
}

func slotBit(c *Call) uint32 {
	if c.BySlot {
		return SlotBit
	}
	return 0
}

func overwritten(p *Patch) Overwritten {
	o := Overwritten{Group: p.Group, Needs: p.Needs, Moved: max(p.Moved, Span(p.Len)), Len: uint8(p.Len), Kind: p.Kind}
	copy(o.Old[:], p.Old[:p.Len])
	copy(o.New[:], p.New[:p.Len])
	if p.Group == NoGroup || p.Group == SignalSites {
		o.Kind = KindSite
	}
	return o
}

// field is the size of a call's displacement.
const field = 4

// leds are the numbers of Leds, by group: of what is called directly, and by a slot.
type leds struct {
	first   uint32 // group
	numbers [][2]uint32
}

// MostLeds is how many Leds a function has that is called as usual.
const MostLeds = 2

func (u *Undos) newLeds(calls []Call) *leds {
	low, high := uint32(NoGroup), uint32(0)
	for i := range calls {
		low, high = min(low, calls[i].Group), max(high, calls[i].Group)
	}
	if len(calls) == 0 {
		return nil
	}
	return &leds{low, make([][2]uint32, high-low+1)}
}

// of is the number of the Led for a call, which it makes if there is none. (A function
// has one entry and one stub: it would make more, were that not so.)
func (l *leds) of(u *Undos, c *Call) uint32 {
	behind := c.At + field
	led, number := Led{c.Group, behind + c.Old, behind + c.New}, &l.numbers[c.Group-l.first][slotBit(c)/SlotBit]
	if int(*number) >= len(u.Leds) || u.Leds[*number] != led {
		*number = uint32(len(u.Leds))
		u.Leds = append(u.Leds, led)
	}
	return *number
}

// Counts are how many entries the other lists have that List refers to.
func (u *Undos) Counts() (overwritten, leds int) {
	for _, l := range u.List {
		if l.Of&CallBit != 0 {
			leds = max(leds, int(l.Of&^(CallBit|SlotBit))+1)
		} else {
			overwritten++
		}
	}
	return overwritten, leds
}

// Cut cuts the changes of the first text off lists of several: so many of each list.
func (u *Undos) Cut(list, overwritten, leds int) *Undos {
	first := &Undos{u.List[:list], u.Overwritten[:overwritten], u.Leds[:leds]}
	*u = Undos{u.List[list:], u.Overwritten[overwritten:], u.Leds[leds:]}
	return first
}

// Add adds the changes of u, of an object in which functions have numbers of its own.
func (g Groups) Add(to, u *Undos) {
	to.List = append(to.List, u.List...)
	for _, o := range u.Overwritten {
		o.Group, o.Needs = g.moved(o.Group), g.moved(o.Needs)
		to.Overwritten = append(to.Overwritten, o)
	}
	for _, l := range u.Leds {
		l.Group = g.moved(l.Group)
		to.Leds = append(to.Leds, l)
	}
}

func (g Groups) moved(group uint32) uint32 {
	if group == NoGroup {
		return NoGroup
	}
	return uint32(g) + group
}

// Extent is what the lists reach.
func (u *Undos) Extent() Extent {
	e := Extent{Functions: NoGroup}
	for i := range u.Overwritten {
		o := &u.Overwritten[i]
		e.Longest = max(e.Longest, o.Moved.Bytes())
		e.reach(o.Group)
		e.reach(o.Needs)
	}
	for i := range u.Leds {
		e.Longest = max(e.Longest, field)
		e.reach(u.Leds[i].Group)
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
