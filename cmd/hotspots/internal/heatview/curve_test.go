package heatview

import (
	"testing"

	pages "github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	"github.com/dynprof/dynprof/internal/table/heat"
)

// TestCurve: at once it is what hotspots heat says; as slices come, but for the working set of
// those before the last, of which less was known.
func TestCurve(t *testing.T) {
	for seed := range uint64(20) {
		p := newProgram(t, seed)
		grown, at := &Curve{}, &heat.Cursor{}
		for range 30 {
			p.run(1 + int(seed)%5)
			grown.Add(p.File, at, p.Executed)
			all := &Curve{}
			all.Add(p.File, &heat.Cursor{}, p.Executed)
			want := pages.New(p.File, nil, pages.Show{})
			if all.Window != want.Window || len(all.Points) != len(want.Curve) || len(grown.Points) != len(want.Curve) {
				t.Fatalf("%d of %d, not %d of %d", len(all.Points), all.Window, len(want.Curve), want.Window)
			}
			minor, major := uint64(0), uint64(0)
			for i, w := range want.Curve {
				minor, major = minor+w.MinorFaults, major+w.MajorFaults
				one := Point{w.Instructions, w.Nanoseconds, w.Resident, w.Touched, w.Used, w.WorkingSet, minor, major, w.Threads, all.Points[i].Counting}
				if all.Points[i].Counting.String() != w.Counting {
					t.Fatalf("slice %d: counting is %v, not %s", i, all.Points[i].Counting, w.Counting)
				}
				if all.Points[i] != one {
					t.Fatalf("seed %d, slice %d of %d: %+v, not %+v", seed, i, len(want.Curve), all.Points[i], one)
				}
				g := grown.Points[i]
				if i < len(want.Curve)-1 {
					g.WorkingSet = one.WorkingSet
				}
				if g != one {
					t.Fatalf("seed %d, slice %d of %d: %+v, not %+v", seed, i, len(want.Curve), g, one)
				}
			}
		}
	}
}
