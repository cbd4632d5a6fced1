package web

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dynprof/dynprof/internal/table/heat"
)

// TestTouchedAt: how much of some pages was touched in some time is what slices in it say, page by
// page.
func TestTouchedAt(t *testing.T) {
	s := newWatchSite(t)
	r := rand.New(rand.NewPCG(1, 1))
	var all []heat.Slice
	for range 30 {
		s.last.Executed += uint64(r.IntN(50))
		s.last.Time += 5
		s.last.Parts, s.last.Ranges = 1, nil
		for at := uint64(r.IntN(6)); at < 40; at += 1 + uint64(r.IntN(9)) {
			n := 1 + uint64(r.IntN(3))
			s.last.Ranges = append(s.last.Ranges, heat.Range{First: at, Pages: n, What: heat.What(1 + r.IntN(3))})
			at += n
		}
		s.log.Add(&s.last)
		all = append(all, s.last)
	}
	for range 100 {
		from, after := uint64(r.IntN(40)), uint64(r.IntN(600))
		to, before := from+1+uint64(r.IntN(20)), after+1+uint64(r.IntN(400))
		pages, slices, times, began := map[uint64]bool{}, 0, 0, uint64(0)
		for i, one := range all {
			if one.Executed == began && i > 0 {
				began-- // what is touched in it, the last instruction did
			}
			if began < before && max(one.Executed, began+1) > after {
				slices++
				for _, r := range one.Ranges {
					for at := r.First; at < r.First+r.Pages; at++ {
						if at >= from && at < to {
							pages[at] = true
							times++
						}
					}
				}
			}
			began = one.Executed
		}
		got := s.get(fmt.Sprintf("tables/%s/memory/at?from=%d&to=%d&after=%d&before=%d", s.p.id, from*heat.PageSize, to*heat.PageSize, after, before))["touched"]
		if want := fmt.Sprint(map[string]int{"granule": heat.PageSize, "granules": len(pages), "slices": slices, "times": times}); fmt.Sprint(got) != want {
			t.Errorf("pages %d to %d, instructions %d to %d: %v, not %v", from, to, after, before, got, want)
		}
	}
}
