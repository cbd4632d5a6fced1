package heat

import (
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/dynprof/dynprof/internal/table/heat"
)

// TestLay: pages are those of an area page by page, whatever lies upon what.
func TestLay(t *testing.T) {
	const pages = 64
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		maps, touched, each := &heat.Maps{}, []heat.Range(nil), [pages]heat.What{}
		for p := uint64(0); p < pages; {
			p += uint64(r.IntN(5))
			n := min(1+uint64(r.IntN(6)), pages-min(p, pages))
			if n == 0 {
				break
			}
			one := heat.Range{First: p, Pages: n, What: heat.What(1 + r.IntN(7)), Begin: 1, End: 2}
			touched = append(touched, one)
			for ; n > 0; n-- {
				each[p] = one.What &^ heat.WasExecuted // what slices say of that is not the last word
				p++
			}
		}
		var run []heat.Range
		for p := uint64(r.IntN(3)); p < pages; p += 1 + uint64(r.IntN(9)) {
			s := heat.Range{First: p, Pages: min(1+uint64(r.IntN(7)), pages-p), What: heat.WasExecuted}
			for ; p < s.First+s.Pages; p++ {
				each[p] |= heat.WasExecuted
			}
			run = append(run, s)
		}
		low := uint64(r.IntN(pages))
		high := low + uint64(r.IntN(int(pages-low)))
		if high > low {
			maps.Mappings = append(maps.Mappings, heat.Mapping{Start: low * heat.PageSize, End: high * heat.PageSize, Path: "/a"})
		}
		m := &Map{unit: heat.Page}
		m.lay(maps, settle(touched, run))
		got, want := [pages]heat.What{}, Sums{Mapped: high - low}
		for _, a := range m.Areas {
			for _, one := range a.Ranges {
				for p := uint64(one.Address) / heat.PageSize; one.Pages > 0; one.Pages-- {
					if is := p >= low && p < high; is != (a.Name == "/a") {
						t.Errorf("seed %d: page %d is of %s", seed, p, a.Name)
					}
					for is, yes := range map[heat.What]bool{heat.WasRead: one.Read, heat.WasWritten: one.Written, heat.WasExecuted: one.Executed} {
						if yes {
							got[p] |= is
						}
					}
					p++
				}
			}
		}
		for _, w := range each {
			for n, is := range map[*uint64]bool{&want.Touched: w != 0, &want.Read: w&heat.WasRead != 0, &want.Written: w&heat.WasWritten != 0, &want.Executed: w&heat.WasExecuted != 0} {
				if is {
					*n++
				}
			}
		}
		if got != each || m.Total != want {
			t.Fatalf("seed %d: %v, not %v; %+v, not %+v", seed, got, each, m.Total, want)
		}
	}
}

// TestLayMost: a file that says that everything was touched takes no more memory than another.
func TestLayMost(t *testing.T) {
	const most = 1 << 35
	m := &Map{unit: heat.Page}
	m.lay(&heat.Maps{}, settle([]heat.Range{{First: 0, Pages: most, What: heat.WasRead}}, []heat.Range{{First: 5, Pages: most - 5, What: heat.WasExecuted}}))
	if want := (Sums{Touched: most, Read: most, Executed: most - 5}); m.Total != want || len(m.Areas) != 1 || !reflect.DeepEqual(m.Areas[0].Ranges[0], Range{Bytes: 5 * heat.PageSize, Pages: 5, Read: true}) {
		t.Errorf("%+v", m)
	}
}

// fileOf is what is beside a table with those slices.
func fileOf(t *testing.T, g heat.Granule, maps *heat.Maps, all ...heat.Slice) *heat.File {
	t.Helper()
	log := heat.Log{Granule: g}
	for i := range all {
		log.Add(&all[i])
	}
	table := filepath.Join(t.TempDir(), "a")
	if err := log.Close(table, [16]byte{}, maps); err != nil {
		t.Fatal(err)
	}
	f, err := heat.Read(table, [16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	return f.In(f.Noted)
}

// TestLines: of each page it is told how many of its lines were touched, and each line is shown
// where lines are asked for; whatever was noted, lines or what is smaller.
func TestLines(t *testing.T) {
	const pages, each = 12, heat.PageSize >> heat.Line
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		g := []heat.Granule{heat.Line, heat.Word}[seed%2]
		size, lines := g.Size(), [pages * each]heat.What{}
		var all []heat.Slice
		end := uint64(pages * heat.PageSize)
		note := func(at, n uint64, what heat.What) {
			for ; n > 0; n-- {
				lines[at*size/heat.Line.Size()] |= what
				at++
			}
		}
		for k := range uint64(1 + r.IntN(3)) {
			s := heat.Slice{Executed: k, Time: k + 1, Parts: 1}
			for at := uint64(r.IntN(500)); at < end/size; at += uint64(1 + r.IntN(500)) {
				n := min(1+uint64(r.IntN(3000))%(1+uint64(r.IntN(3000))), end/size-at)
				one := heat.Range{First: at, Pages: n, What: heat.What(1 + r.IntN(3))}
				s.Ranges = append(s.Ranges, one)
				note(at, n, one.What)
				at += n
			}
			all = append(all, s)
		}
		var ran []heat.Range
		if at := uint64(r.IntN(int(end / size))); r.IntN(2) > 0 {
			ran = []heat.Range{{First: at, Pages: min(uint64(1+r.IntN(3000)), end/size-at), What: heat.WasExecuted}}
			note(at, ran[0].Pages, heat.WasExecuted)
		}
		maps := &heat.Maps{Mappings: []heat.Mapping{{Start: 0x2000, End: 0x4000, Path: "/memfd:dynprof-heat (deleted)"}, {Start: 0x4000, End: 0x7000, Path: "/a"}}}
		f := fileOf(t, g, maps, all...)
		ours := func(page uint64) bool { return page == 2 || page == 3 }

		m := New(f, ran, Show{})
		want, got := [pages]uint64{}, [pages]uint64{}
		total := uint64(0)
		for i, what := range lines {
			if what != 0 && !ours(uint64(i/each)) {
				want[i/each]++
				total++
			}
		}
		for _, a := range m.Areas {
			sum := uint64(0)
			for _, one := range a.Ranges {
				if one.Bytes != one.Pages*heat.PageSize {
					t.Errorf("seed %d: %+v", seed, one)
				}
				for p := uint64(one.Address) / heat.PageSize; one.Pages > 0; one.Pages-- {
					got[p] = one.Lines
					sum += one.Lines
					p++
				}
			}
			if sum != a.Lines {
				t.Errorf("seed %d: %s: %d lines, not %d", seed, a.Name, a.Lines, sum)
			}
		}
		if got != want || m.Total.Lines != total {
			t.Fatalf("seed %d: %d, not %d; %d of %d", seed, got, want, m.Total.Lines, total)
		}

		m = New(f, ran, Show{By: heat.Line})
		seen := [pages * each]heat.What{}
		for _, a := range m.Areas {
			for _, one := range a.Ranges {
				for at := uint64(one.Address); at < uint64(one.Address)+one.Bytes; at += heat.Line.Size() {
					for is, yes := range map[heat.What]bool{heat.WasRead: one.Read, heat.WasWritten: one.Written, heat.WasExecuted: one.Executed} {
						if yes {
							seen[at>>heat.Line] |= is
						}
					}
				}
			}
		}
		for i := range lines {
			if ours(uint64(i / each)) {
				lines[i] = 0
			}
		}
		if seen != lines || m.Total.Touched != total || m.Unit != 64 || m.Total.Lines != 0 {
			t.Fatalf("seed %d: by lines: %v, not %v", seed, seen, lines)
		}
	}
}

// written is what a log writes, read again.
func written(t *testing.T, log *heat.Log) *heat.File {
	t.Helper()
	table := filepath.Join(t.TempDir(), "a")
	if err := log.Close(table, [16]byte{}, &heat.Maps{}); err != nil {
		t.Fatal(err)
	}
	f, err := heat.Read(table, [16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestCurve: the curve is what each slice says, and what follows from those before it.
func TestCurve(t *testing.T) {
	const pages = 40
	r := rand.New(rand.NewPCG(1, 1))
	var log heat.Log
	var all []heat.Slice
	at := uint64(0)
	for range 60 {
		s := heat.Slice{Executed: at + uint64(r.IntN(100)), Time: uint64(len(all)+1) * 1000, Parts: 1, Resident: 7}
		at = s.Executed
		for p := uint64(r.IntN(9)); p < pages; p += uint64(r.IntN(9)) {
			n := min(uint64(1+r.IntN(3)), pages-p)
			s.Ranges = append(s.Ranges, heat.Range{First: p, Pages: n, What: heat.What(1 + r.IntN(7))})
			p += n + 1
		}
		log.Add(&s)
		all = append(all, s)
	}
	f := written(t, &log)
	m := &Map{}
	m.trace(f, 150)
	used := map[uint64]bool{}
	for k, s := range all {
		near, here := map[uint64]bool{}, 0
		for i := range all[:k+1] {
			for _, r := range all[i].Ranges {
				for p := r.First; p < r.First+r.Pages; p++ {
					used[p] = true
					if i == k || s.Executed-all[i].Executed < 150 {
						near[p] = true
					}
					if i == k {
						here++
					}
				}
			}
		}
		if p := m.Curve[k]; p.Used != uint64(len(used)) || p.WorkingSet != uint64(len(near)) || p.Touched != uint64(here) || p.Instructions != s.Executed || p.Nanoseconds != s.Time || p.Resident != 7 {
			t.Fatalf("slice %d: %+v, not %d used, %d near, %d", k, p, len(used), len(near), here)
		}
	}
}

// TestPartOfTime: what is shown of a part of the time is what its slices have, without what the table
// says did not run; of all of it is also what ran in no slice.
func TestPartOfTime(t *testing.T) {
	const pages, slices = 30, 40
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 7))
		var log heat.Log
		var all []heat.Slice
		for k := range uint64(slices) {
			s := heat.Slice{Executed: 100 * (k + 1), Time: k + 1, Parts: 1}
			for p := uint64(r.IntN(9)); p < pages; p += 2 + uint64(r.IntN(9)) {
				s.Ranges = append(s.Ranges, heat.Range{First: p, Pages: 1, What: heat.What(1 + r.IntN(7))})
			}
			log.Add(&s)
			all = append(all, s)
		}
		f := written(t, &log)
		ran := []heat.Range{{First: 0, Pages: pages / 2, What: heat.WasExecuted}, {First: pages + 5, Pages: 1, What: heat.WasExecuted}}
		from, to := uint64(r.IntN(slices)), uint64(0)
		if r.IntN(4) > 0 {
			to = from + 1 + uint64(r.IntN(slices-int(from)))
		}
		want := [pages + 6]heat.What{}
		for k, s := range all {
			if uint64(k) < from || to > 0 && uint64(k) >= to {
				continue
			}
			for _, one := range s.Ranges {
				if one.First >= pages/2 {
					one.What &^= heat.WasExecuted
				}
				want[one.First] |= one.What
			}
		}
		if from == 0 && to == 0 {
			for p := range uint64(pages / 2) {
				want[p] |= heat.WasExecuted
			}
			want[pages+5] = heat.WasExecuted
		}
		m, got := New(f, ran, Show{After: 100 * from, Before: 100 * to}), [pages + 6]heat.What{}
		for i := range m.Areas {
			for _, one := range m.Areas[i].Ranges {
				for p := range one.Bytes / heat.PageSize {
					for is, what := range map[heat.What]bool{heat.WasRead: one.Read, heat.WasWritten: one.Written, heat.WasExecuted: one.Executed} {
						if what {
							got[uint64(one.Address)/heat.PageSize+p] |= is
						}
					}
				}
			}
		}
		if got != want {
			t.Fatalf("seed %d, %d to %d: %v, not %v", seed, from, to, got, want)
		}
	}
}
