package patch

import (
	"slices"
	"testing"
)

// TestSpan: short spans are exact; long ones are no shorter than what they stand for, by
// less than 64 KB longer, and ordered.
func TestSpan(t *testing.T) {
	last := Span(0)
	for _, n := range []uint64{0, 1, 5, 255, 256, 512, 513, 1<<15 - 1, 1 << 15, 1<<16 - 1, 1 << 16, 1<<16 + 1, 1 << 20, 100<<20 + 7, 1<<31 - 1<<16} {
		s := SpanOf(n)
		if got := s.Bytes(); got < n || n < 1<<15 && got != n || got-n >= 1<<16 {
			t.Errorf("%d bytes are %d", n, got)
		}
		if s < last {
			t.Errorf("%d bytes are less than those before", n)
		}
		last = s
	}
}

// TestExtent: of functions only; a site has none.
func TestExtent(t *testing.T) {
	site := Overwritten{Group: NoGroup, Needs: NoGroup, Moved: 5}
	for name, row := range map[string]struct {
		undos Undos
		want  Extent
	}{
		"sites":     {Undos{Overwritten: []Overwritten{site, {Group: SignalSites, Needs: NoGroup, Moved: 7}}}, Extent{7, 0, 0}},
		"functions": {Undos{Overwritten: []Overwritten{{Group: 8, Needs: NoGroup, Moved: SpanOf(70_000)}, site, {Group: 6, Needs: SignalSites, Moved: 300}}}, Extent{2 << 16, 6, 9}},
		"needed":    {Undos{Overwritten: []Overwritten{{Group: 8, Needs: 3}, {Group: 5, Needs: 11}}}, Extent{0, 3, 12}},
		"called":    {Undos{Overwritten: []Overwritten{{Group: 8, Needs: NoGroup, Moved: 2}}, Leds: []Led{{Group: 12}, {Group: 7}}}, Extent{4, 7, 13}},
	} {
		if got := row.undos.Extent(); got != row.want {
			t.Errorf("%s: %+v, not %+v", name, got, row.want)
		}
	}
}

// TestNoteUndos: in the order of addresses, whatever order calls come in. What a call was
// follows from where it is: backwards, too, and behind 2 GB.
func TestNoteUndos(t *testing.T) {
	const start = 0x1000
	const back, far = ^uint32(0), uint32(0x9000_0000) // -1
	patches := []Patch{{At: start + 3, Len: 5, Group: 1, Old: [8]byte{1, 2}, New: [8]byte{3, 4}}, {At: start + 20, Len: 5, Group: NoGroup}, {At: start + 30, Len: 2, Group: 2}}
	toSecond := func(at uint32) Call { return Call{at, 2, 100 - (at + 4), far - (at + 4), false} }
	calls := []Call{{40, 1, back - 40, 7, false}, toSecond(9), toSecond(26), toSecond(200)}
	var u Undos
	u.Note(start, patches, calls)
	want := []Listed{{3, 0}, {9, CallBit}, {20, 1}, {26, CallBit}, {30, 2}, {40, CallBit | 1}, {200, CallBit}}
	if !slices.Equal(u.List, want) {
		t.Errorf("%+v, not %+v", u.List, want)
	}
	if want := []Led{{2, 100, far}, {1, 3, 51}}; !slices.Equal(u.Leds, want) {
		t.Errorf("%+v, not %+v", u.Leds, want)
	}
	if o := u.Overwritten; len(o) != 3 || o[0].Old != [mostUndone]byte{1, 2} || o[0].New != [mostUndone]byte{3, 4} || o[0].Kind == KindSite || o[1].Kind != KindSite || o[2].Len != 2 {
		t.Errorf("%+v", o)
	}
}

// TestNoteUndosOfTwoEntries: a function that is called at two places in itself has two.
func TestNoteUndosOfTwoEntries(t *testing.T) {
	var u Undos
	u.Note(0, nil, []Call{{0, 5, 10, 20, false}, {10, 5, 0, 10, false}, {20, 5, 40, 50, false}})
	if want := []Led{{5, 14, 24}, {5, 64, 74}}; !slices.Equal(u.Leds, want) || !slices.Equal(u.List, []Listed{{0, CallBit}, {10, CallBit}, {20, CallBit | 1}}) {
		t.Errorf("%+v of %+v", u.List, u.Leds)
	}
}

// TestNoteUndosBySlot: a function that is called directly and by the PLT in turn has two.
func TestNoteUndosBySlot(t *testing.T) {
	var u Undos
	u.Note(0, nil, []Call{{0, 5, 10, 20, false}, {10, 5, 20, 10, true}, {20, 5, ^uint32(9), 0, false}, {30, 5, 0, ^uint32(9), true}})
	if want := []Led{{5, 14, 24}, {5, 34, 24}}; !slices.Equal(u.Leds, want) {
		t.Errorf("%+v, not %+v", u.Leds, want)
	}
	want := []Listed{{0, CallBit}, {10, CallBit | SlotBit | 1}, {20, CallBit}, {30, CallBit | SlotBit | 1}}
	if _, leds := u.Counts(); !slices.Equal(u.List, want) || leds != 2 {
		t.Errorf("%+v, not %+v; %d functions", u.List, want, leds)
	}
}
