package heat

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// TestNamed: memory behind an object's data is its own as far as the object reaches, also where the
// heap is one with it; what is ours is said to be so.
func TestNamed(t *testing.T) {
	const page = heat.PageSize
	objects := []layout.Object{{Path: "/bin/a", Low: 0x10 * page, High: 0x14*page + 5, Arena: 0x40 * page}, {Path: "/lib/b", Low: 0x20 * page, High: 0x22 * page}}
	at := func(start, end uint64, path string, inode uint64) heat.Mapping {
		return heat.Mapping{Start: start * page, End: end * page, Path: path, Inode: inode, Resident: page}
	}
	list := []heat.Mapping{
		at(0x10, 0x12, "/bin/a", 0), at(0x12, 0x18, "[heap]", 0), at(0x18, 0x19, "", 0), at(0x20, 0x21, "/cache/0123456789abcdef.text", 0), at(0x21, 0x22, "", 0), at(0x22, 0x23, "", 0),
		at(0x40, 0x41, "/dev/zero (deleted)", 7), at(0x50, 0x51, "/dev/zero (deleted)", 8), at(0x60, 0x61, "/dev/zero (deleted)", 7), at(0x70, 0x71, "/tmp/table", 0), at(0x80, 0x81, "/x/libdynprof.so", 0),
	}
	own := func(m heat.Mapping) heat.Mapping { m.Ours = true; return m }
	rest := at(0x15, 0x18, "[heap]", 0)
	rest.Resident = 0
	want := []heat.Mapping{
		at(0x10, 0x12, "/bin/a", 0), at(0x12, 0x15, "/bin/a", 0), rest, at(0x18, 0x19, "", 0), at(0x20, 0x21, "/lib/b", 0), at(0x21, 0x22, "/lib/b", 0), at(0x22, 0x23, "", 0),
		own(at(0x40, 0x41, "/dev/zero (deleted)", 7)), at(0x50, 0x51, "/dev/zero (deleted)", 8), own(at(0x60, 0x61, "/dev/zero (deleted)", 7)), own(at(0x70, 0x71, "/tmp/table", 0)), own(at(0x80, 0x81, "/x/libdynprof.so", 0)),
	}
	if got := Named(list, objects, "/tmp/table"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nnot %+v", got, want)
	}
}

// TestOwn: what is dynprof's own is one area, the last, and in no total of what is mapped and resident.
func TestOwn(t *testing.T) {
	const page = heat.PageSize
	maps := &heat.Maps{Ended: true, Mappings: []heat.Mapping{
		{Start: page, End: 3 * page, Path: "/a", Resident: page}, {Start: 3 * page, End: 9 * page, Path: "/t", Ours: true, Resident: 4 * page}, {Start: 9 * page, End: 10 * page, Path: "/b", Gone: true}, {Start: 20 * page, End: 21 * page, Path: "/l", Ours: true},
	}}
	f := fileOf(t, heat.Page, maps, heat.Slice{Executed: 1, Time: 1, Parts: 1, Ranges: []heat.Range{{First: 1, Pages: 1, What: heat.WasRead}, {First: 9, Pages: 1, What: heat.WasRead}}})
	m := New(f, nil, Show{})
	if m.Total != (Sums{Mapped: 2, Resident: 1, Touched: 2, Read: 2}) || len(m.Areas) != 3 {
		t.Errorf("%+v", m)
	}
	if a := m.Areas[2]; !a.Ours || a.Name != own || a.Mapped != 7 || a.Resident != 4 || a.First != 0 {
		t.Errorf("%+v", a)
	}
	if b := m.Areas[1]; b.Name != "/b" || b.Mapped != 0 || b.Touched != 1 || b.First != 1 || b.Last != 1 {
		t.Errorf("%+v", b)
	}
}

// TestKinds: when a page was read, written and executed first and last is told of each for itself.
func TestKinds(t *testing.T) {
	const pages, slices = 24, 12
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		var want [pages]Kinds
		var all []heat.Slice
		var ran []heat.Range
		for p := range uint64(pages) {
			if r.IntN(2) == 0 {
				ran = append(ran, heat.Range{First: p, Pages: 1, What: heat.WasExecuted})
			}
		}
		isRun := func(p uint64) bool {
			for _, r := range ran {
				if r.First == p {
					return true
				}
			}
			return false
		}
		for k := range uint32(slices) {
			s := heat.Slice{Executed: uint64(k), Time: uint64(k), Parts: 1}
			for p := range uint64(pages) {
				what := heat.What(r.IntN(8) & r.IntN(8))
				if what == 0 {
					continue
				}
				s.Ranges = append(s.Ranges, heat.Range{First: p, Pages: 1, What: what})
				for bit := range 3 {
					if what&(1<<bit) == 0 || bit == 2 && !isRun(p) {
						continue
					}
					first, last := want[p].of(bit)
					if *last = k + 1; *first == 0 {
						*first = k + 1
					}
				}
			}
			all = append(all, s)
		}
		m := New(fileOf(t, heat.Page, &heat.Maps{}, all...), heat.Flat(ran), Show{Kinds: true})
		var got [pages]Kinds
		for _, a := range m.Areas {
			for _, one := range a.Ranges {
				for p := uint64(one.Address) / heat.PageSize; one.Pages > 0; one.Pages-- {
					got[p] = one.Kinds
					p++
				}
			}
		}
		if got != want {
			t.Fatalf("seed %d: %+v, not %+v", seed, got, want)
		}
	}
}
