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
	site := Undo{Group: NoGroup, Needs: NoGroup, Moved: 5}
	for name, row := range map[string]struct {
		list []Undo
		want Extent
	}{
		"sites":     {[]Undo{site, {Group: SignalSites, Needs: NoGroup, Moved: 7}}, Extent{7, 0, 0}},
		"functions": {[]Undo{{Group: 8, Needs: NoGroup, Moved: SpanOf(70_000)}, site, {Group: 6, Needs: SignalSites, Moved: 300}}, Extent{2 << 16, 6, 9}},
		"needed":    {[]Undo{{Group: 8, Needs: 3}, {Group: 5, Needs: 11}}, Extent{0, 3, 12}},
	} {
		if got := ExtentOf(row.list); got != row.want {
			t.Errorf("%s: %+v, not %+v", name, got, row.want)
		}
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
