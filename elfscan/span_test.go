package elfscan

import (
	"cmp"
	"debug/elf"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSortByKey compares with a stable sort of the library.
func TestSortByKey(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, most := range []uint32{1, 2, 300, 1 << 11, 1 << 13, 1 << 23, math.MaxUint32} {
		for _, n := range []int{0, 1, 2, 100, 5000} {
			type item struct{ key, order uint32 }
			got := make([]item, n)
			for i := range got {
				got[i] = item{math.MaxUint32 - random.Uint32N(most), uint32(i)}
			}
			want := slices.Clone(got)
			slices.SortStableFunc(want, func(a, b item) int { return cmp.Compare(a.key, b.key) })
			sortByKey(got, func(i *item) uint32 { return i.key })
			if !slices.Equal(got, want) {
				t.Errorf("%d keys below %d: not as a stable sort", n, most)
			}
		}
	}
}

// TestSpans joins and finds address ranges.
func TestSpans(t *testing.T) {
	s := spans{{50, 60}, {10, 20}, {15, 30}, {30, 40}, {70, 70}, {55, 52}}.sorted()
	if want := (spans{{10, 30}, {30, 40}, {50, 60}}); !slices.Equal(s, want) {
		t.Fatalf("got %v, want %v", s, want)
	}
	for addr, want := range map[uint64]bool{0: false, 9: false, 10: true, 29: true, 30: true, 39: true, 40: false, 50: true, 59: true, 60: false, math.MaxUint64: false} {
		if s.has(addr) != want {
			t.Errorf("has(%d) is %v", addr, !want)
		}
	}
	if (spans)(nil).has(0) || !(spans{{1, 2}}).has(1) || (spans{{1, 2}}).has(2) {
		t.Error("none or one span")
	}
}

// TestTextRel checks the two ways to say that text is relocated.
func TestTextRel(t *testing.T) {
	for _, row := range []struct {
		name string
		tag  elf.DynTag
		v    uint64
		want bool
	}{
		{"DT_TEXTREL", elf.DT_TEXTREL, 0, true},
		{"DF_TEXTREL", elf.DT_FLAGS, uint64(elf.DF_TEXTREL | elf.DF_BIND_NOW), true},
		{"other flags", elf.DT_FLAGS, uint64(elf.DF_BIND_NOW), false},
		{"other tag", elf.DT_DEBUG, 4, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var d dynamic
			if d.set(row.tag, row.v); d.textRel != row.want {
				t.Errorf("got %v", d.textRel)
			}
		})
	}
}

// TestFarText keeps what lies within 4 GiB of the first code, and says so.
func TestFarText(t *testing.T) {
	f := &file{size: 1 << 20}
	f.addSegment(Segment{Addr: 1 << 33, MemSize: 0x1000, Offset: 0x1000, FileSize: 0x1000, Flags: elf.PF_X})
	f.addSegment(Segment{Addr: 0x1000, MemSize: 0x1000, Offset: 0x1000, FileSize: 0x1000, Flags: elf.PF_X})
	f.setText()
	if _, ok := f.rel(0x1800); !ok {
		t.Error("near code is left out")
	}
	if _, ok := f.rel(1<<33 + 8); ok || len(f.problems) != 1 {
		t.Errorf("far code, problems %v", f.problems)
	}
}
