package place

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/procmaps"
)

const mb = 1 << 20

// TestPlace: an arena lies below its object if there is room in reach, else in front
// of the heap, else as far above as it goes, else nowhere.
func TestPlace(t *testing.T) {
	object := Span{0x400000, 0x500000}
	mapped := procmaps.Mapping{Start: object.Low, End: object.High}
	heap := uint64(0x2000000)
	for name, row := range map[string]struct {
		maps   []procmaps.Mapping
		size   uint64
		at, to uint64 // where it may lie
	}{
		"below":                 {[]procmaps.Mapping{mapped}, mb, 0x10000, object.Low},
		"no room below":         {[]procmaps.Mapping{mapped}, 8 * mb, object.High, heap},
		"nor before the heap":   {[]procmaps.Mapping{mapped}, 64 * mb, reach - 128*mb, object.Low + reach},
		"a tight gap":           {[]procmaps.Mapping{{Start: 0, End: object.Low - mb}, mapped, {Start: object.High, End: 1 << 47}}, mb, object.Low - mb, object.Low},
		"more than can be":      {[]procmaps.Mapping{mapped}, 3 << 30, 0, 0},
		"everything is mapped":  {[]procmaps.Mapping{{Start: 0, End: 1 << 47}}, 4096, 0, 0},
		"only far out of reach": {[]procmaps.Mapping{{Start: 0, End: 1 << 40}}, 4096, 0, 0},
	} {
		s := NewSpace(row.maps, 0x10000, Growth{Heap: heap})
		at, ok := s.Place(object, row.size)
		if ok != (row.to != 0) || ok && (at < row.at || at+row.size > row.to || at%pageSize != 0) {
			t.Errorf("%s: %#x, %v", name, at, ok)
		}
		if again, ok := s.Place(object, row.size); ok && again < at+row.size && at < again+row.size {
			t.Errorf("%s: %#x and %#x overlap", name, at, again)
		}
	}
}

// TestMapped: below each mapping room is left, as much as is asked for, or half of what there is.
func TestMapped(t *testing.T) {
	object := Span{0x7f0000000000, 0x7f0000100000}
	for _, row := range []struct{ below, left uint64 }{{0, guard}, {mb, mb + guard}, {64 * mb, 2*mb + guard}} {
		s := NewSpace([]procmaps.Mapping{{Start: 0, End: object.Low - 4*mb}, {Start: object.Low, End: object.High}}, 4096, Growth{Maps: row.below})
		if at, ok := s.Place(object, mb); !ok || at != object.Low-row.left-mb {
			t.Errorf("%#x, %v, of %+v", at, ok, row)
		}
	}
}

// TestLift: where there is too little room in front of the heap, and it may be moved,
// an arena lies where it ended, and the next behind that.
func TestLift(t *testing.T) {
	object, end := Span{0x400000, 0x500000}, uint64(0x2100800)
	maps := []procmaps.Mapping{{Start: object.Low, End: object.High}, {Start: 0x2000000, End: 0x2800000, Path: "[heap]"}}
	s := NewSpace(maps, 0x10000, Growth{Heap: 0x2000000, HeapEnd: end})
	if at, ok := s.Place(object, mb); !ok || at > object.Low || s.HeapEnd() != 0 {
		t.Errorf("below: %#x, %v; the heap ends at %#x", at, ok, s.HeapEnd())
	}
	for _, want := range []uint64{0x2101000, 0x6101000} {
		if at, ok := s.Place(object, 64*mb); !ok || at != want || s.HeapEnd() != want+64*mb {
			t.Errorf("%#x, %v, not %#x; the heap ends at %#x", at, ok, want, s.HeapEnd())
		}
	}
	if at, ok := s.Place(object, 1900*mb); ok {
		t.Errorf("more than is in reach: %#x", at)
	}
}

// TestStackRoom: what the stack may grow to is kept free, a GB at most.
func TestStackRoom(t *testing.T) {
	const top = 0x7fff00000000
	stack := procmaps.Mapping{Start: top - mb, End: top, Path: "[stack]"}
	for limit, room := range map[uint64]uint64{8 * mb: 8 * mb, 4096: mb, 1 << 62: 1 << 30} {
		s := NewSpace([]procmaps.Mapping{stack}, 4096, Growth{Stack: limit})
		if want := (Span{4096, top - room}); s.gaps[0] != want {
			t.Errorf("limit %#x: free is %#x, not %#x", limit, s.gaps[0], want)
		}
	}
}

// TestPlaceBelow: wherever a planner's own heap lies, what no code refers to lies
// below the program.
func TestPlaceBelow(t *testing.T) {
	program := Span{0x555555554000, 0x555555654000}
	for _, own := range []uint64{0x00c000000000, 0x2f1820000000, 0x3fff00000000, 0x655500000000} {
		maps := []procmaps.Mapping{{Start: program.Low, End: program.High}, {Start: 0x7ffff7d00000, End: 1 << 47}}
		maps = append(maps, procmaps.Mapping{Start: own, End: own + 64*mb})
		slices.SortFunc(maps, func(a, b procmaps.Mapping) int { return cmp.Compare(a.Start, b.Start) })
		s := NewSpace(maps, 0x10000, Growth{})
		for i := range uint64(3) {
			if at, ok := s.PlaceAnywhere(program, mb); !ok || at != program.Low-(i+1)*(mb+guard) {
				t.Errorf("with %#x: %#x, %v", own, at, ok)
			}
		}
	}
}

// TestPlaceAnywhere: at the end of the largest gap, where nothing large is below.
func TestPlaceAnywhere(t *testing.T) {
	s := NewSpace([]procmaps.Mapping{{Start: 0, End: 64 * mb}, {Start: 128 * mb, End: 256 * mb}, {Start: 512 * mb, End: 1 << 47}}, 4096, Growth{})
	for i := range uint64(2) {
		at, ok := s.PlaceAnywhere(Span{}, mb)
		if want := 512*mb - (i+1)*(mb+guard); !ok || at != want {
			t.Errorf("%#x, %v, not %#x", at, ok, want)
		}
	}
	if at, ok := s.PlaceAnywhere(Span{}, 1<<40); ok {
		t.Errorf("a terabyte at %#x", at)
	}
	s = NewSpace([]procmaps.Mapping{{Start: 0, End: 1 << 47}}, 4096, Growth{})
	if at, ok := s.PlaceAnywhere(Span{}, 4096); ok {
		t.Errorf("%#x, and all is mapped", at)
	}
}

// TestTrialKnows: where nothing is where it was tried it asks what is free, and again
// when somebody else was faster.
func TestTrialKnows(t *testing.T) {
	object := Span{0x400000, 0x500000}
	free := Span{0x601000, 0x603000}
	known := func() (*Space, error) {
		return NewSpace([]procmaps.Mapping{{Start: 0, End: free.Low}, {Start: free.High, End: 1 << 47}}, 4096, Growth{}), nil
	}
	refused := 0
	hold := func(at, size uint64) bool {
		inside := at >= free.Low && at+size <= free.High
		if inside && refused < 3 {
			refused++
			return false
		}
		return inside
	}
	at, ok := (&Trial{Lowest: 4096, Hold: hold, Known: known}).Place(object, 4096)
	if !ok || at < free.Low || at >= free.High || refused != 3 {
		t.Errorf("%#x, %v, after %d", at, ok, refused)
	}
	never := func(uint64, uint64) bool { return false }
	for _, trial := range []*Trial{
		{Hold: never, Known: known},
		{Hold: never},
		{Hold: never, Known: func() (*Space, error) { return nil, errors.New("no /proc") }},
		{Hold: hold, Known: func() (*Space, error) {
			return NewSpace([]procmaps.Mapping{{Start: 0, End: 1 << 47}}, 0, Growth{}), nil
		}},
	} {
		if at, ok := trial.Place(object, 4096); ok {
			t.Errorf("%#x", at)
		}
	}
}

// TestGroup: neighbours share an arena, others do not.
func TestGroup(t *testing.T) {
	groups, around := Group([]Span{{1 << 40, 1<<40 + mb}, {1 << 20, 2 << 20}, {1<<40 + 2*mb, 1<<40 + 3*mb}, {1<<40 + reach, 1<<40 + reach + mb}})
	if len(groups) != 3 || !slices.Equal(groups[1], []int{0, 2}) || around[1] != (Span{1 << 40, 1<<40 + 3*mb}) {
		t.Errorf("%v, %x", groups, around)
	}
}

// TestTake: an address that is asked for is taken once, if it is free and out of the
// heap's way.
func TestTake(t *testing.T) {
	object := Span{0x400000000, 0x400100000}
	maps := []procmaps.Mapping{{Start: object.Low, End: object.High}, {Start: 0x500000000, End: 0x500001000}}
	s := NewSpace(maps, 0x10000, Growth{Heap: 0x480000000})
	for i, row := range []struct {
		at, size uint64
		ok       bool
	}{
		{0x300000000, mb, true}, {0x300000000, mb, false}, {0x3000ff000, mb, false}, {0x300100000, mb, true}, {0x300200008, mb, false},
		{object.Low - mb, mb, true}, {object.Low - 3*mb, mb, true}, {object.Low, mb, false}, {0x420000000, mb, true}, {0x47fff0000, mb, false},
		{0x4fffff000, mb, false}, {0x490000000, mb, false}, {^uint64(0xfff), 0x2000, false}, {0, mb, false},
	} {
		if ok := s.Take(object, row.at, row.size); ok != row.ok {
			t.Errorf("row %d: %#x, %v", i, row.at, ok)
		}
	}
	if at, ok := s.Place(object, mb); !ok || at != object.Low-2*mb {
		t.Errorf("what is left between two is at %#x, %v", at, ok)
	}
}

// TestShadow: those of libraries side by side do not overlap, and are in reach.
func TestShadow(t *testing.T) {
	const top = 0x7ffff7fc0000
	low, last := uint64(top), uint64(top)
	for _, pages := range []uint64{1, 30, 2, 5000, 512, 7} {
		s := Span{low - pages*pageSize, low}
		low = s.Low
		at, ok := Shadow(s, pages*pageSize)
		if !ok || at%pageSize != 0 || at+pages*pageSize > last || !InReach(s, at, pages*pageSize) || s.Low-at < 512*mb {
			t.Errorf("%#x: %#x, %t, above %#x", s, at, ok, last)
		}
		last = at
		if at, ok := Shadow(s, pages*pageSize+1); ok {
			t.Errorf("%#x: larger than it: %#x", s, at)
		}
	}
	if at, ok := Shadow(Span{0x400000, 0x500000}, pageSize); ok {
		t.Errorf("below the first address: %#x", at)
	}
}

// TestSlot: a library's is at the same distance wherever it lies, and in reach.
func TestSlot(t *testing.T) {
	for number := range uint64(40000) {
		a, b := Span{0x7f0000000000, 0x7f0000200000}, Span{0x7e1230000000, 0x7e1230200000}
		at := Slot(a, mb, number*0x9e3779b97f4a7c15)
		if a.Low-at != b.Low-Slot(b, mb, number*0x9e3779b97f4a7c15) || at%pageSize != 0 || !InReach(a, at, mb) || a.Low-at < 512*mb {
			t.Fatalf("%#x", at)
		}
	}
	if InReach(Span{0x200000000, 0x200001000}, 0x200000000-reach, mb) || InReach(Span{0, 0x1000}, reach, mb) || !InReach(Span{0, 0x1000}, 0x2000, mb) {
		t.Error("in reach")
	}
}
