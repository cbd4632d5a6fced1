package heat

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/dynprof/dynprof/internal/table/heat"
)

// TestLay: pages are those of an area page by page, whatever lies upon what.
func TestLay(t *testing.T) {
	const pages = 64
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		f, each := &heat.File{}, [pages]what{}
		for p := uint64(0); p < pages; {
			p += uint64(r.IntN(5))
			n := min(1+uint64(r.IntN(6)), pages-min(p, pages))
			if n == 0 {
				break
			}
			one := heat.Range{First: p, Pages: n, Read: r.IntN(2) > 0}
			one.Written = !one.Read || r.IntN(2) > 0
			f.Ranges = append(f.Ranges, one)
			for ; n > 0; n-- {
				each[p] = what{read: one.Read, written: one.Written}
				p++
			}
		}
		var run []span
		for p := uint64(r.IntN(3)); p < pages; p += 1 + uint64(r.IntN(9)) {
			s := span{p, min(p+1+uint64(r.IntN(7)), pages), what{executed: true}}
			for ; p < s.end; p++ {
				each[p].executed = true
			}
			run = append(run, s)
		}
		low := uint64(r.IntN(pages))
		high := low + uint64(r.IntN(int(pages-low)))
		if high > low {
			f.Mappings = append(f.Mappings, heat.Mapping{Start: low * heat.PageSize, End: high * heat.PageSize, Path: "/a"})
		}
		m := &Map{}
		m.lay(f, run)
		got, want := [pages]what{}, Sums{Mapped: high - low}
		for _, a := range m.Areas {
			for _, one := range a.Ranges {
				for p := uint64(one.Address) / heat.PageSize; one.Pages > 0; one.Pages-- {
					if is := p >= low && p < high; is != (a.Name == "/a") {
						t.Errorf("seed %d: page %d is of %s", seed, p, a.Name)
					}
					got[p] = one.is()
					p++
				}
			}
		}
		for _, w := range each {
			for n, is := range map[*uint64]bool{&want.Touched: w != what{}, &want.Read: w.read, &want.Written: w.written, &want.Executed: w.executed} {
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
	m := &Map{}
	m.lay(&heat.File{Ranges: []heat.Range{{First: 0, Pages: most, Read: true}}}, []span{{5, most, what{executed: true}}})
	if want := (Sums{Touched: most, Read: most, Executed: most - 5}); m.Total != want || len(m.Areas) != 1 || !reflect.DeepEqual(m.Areas[0].Ranges[0], Range{0, 5, true, false, false}) {
		t.Errorf("%+v", m)
	}
}
