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
	list := []Undo{{Moved: 5}, {Moved: SpanOf(70_000)}, {Moved: 300}}
	if n := Longest(list); n != 2<<16 {
		t.Errorf("the longest has %d bytes", n)
	}
}

// TestAppendUndos: in the order of addresses, whatever order calls come in.
func TestAppendUndos(t *testing.T) {
	const start = 0x1000
	patches := []Patch{{At: start + 3, Len: 5, Group: 1, Old: [8]byte{1, 2}}, {At: start + 20, Len: 5, Group: NoGroup}, {At: start + 30, Len: 2, Group: 2}}
	calls := []Call{{At: 40, Group: 1}, {At: 9, Group: 2, Old: 0x04030201, New: 0x08070605}, {At: 26, Group: 2}}
	list := AppendUndos(make([]Undo, 1), start, patches, calls)[1:]
	var got []Undo
	for _, u := range list {
		got = append(got, Undo{At: u.At, Kind: u.Kind, Len: u.Len})
	}
	want := []Undo{{At: 3, Len: 5}, {At: 9, Kind: KindCall, Len: 4}, {At: 20, Kind: KindSite, Len: 5}, {At: 26, Kind: KindCall, Len: 4}, {At: 30, Len: 2}, {At: 40, Kind: KindCall, Len: 4}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, not %+v", got, want)
	}
	if u := list[1]; u.Old != [mostUndone]byte{1, 2, 3, 4} || u.New != [mostUndone]byte{5, 6, 7, 8} || u.Needs != NoGroup {
		t.Errorf("the call is %+v", u)
	}
}
