package translate

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/flow"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// load is the units of a file.
func load(t testing.TB, path string) (*stubgen.Object, *flow.Program) {
	t.Helper()
	o, sites := fixture.LoadWhole(t, path)
	return o, flow.New(survey.New(o, 0), sites, 0)
}

// TestGolden compares the copies of flow.s, before they are encoded and behind it, with
// copies.golden.
func TestGolden(t *testing.T) {
	o, p := load(t, fixture.Link(t, "../flow/testdata/flow.s"))
	var got strings.Builder
	for i, u := range p.Units() {
		g, why := p.Graph(i)
		var h *Home
		if g != nil {
			h, why = PlanHome(g)
		}
		fmt.Fprintf(&got, "== %s: ", o.Functions[u.Function].Name)
		if h == nil {
			fmt.Fprintf(&got, "%s\n\n", why)
			continue
		}
		c := Lower(h)
		c.CountBlocks(0)
		code := make([]byte, c.Size(o))
		to, err := c.Encode(o, code, fixture.ArenaAt, Counter{Row: 0x80})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "\n%s-- encoded\n%s", c.Text(o), fixture.Disassemble(t, code[:to.Len], uint64(fixture.ArenaAt)))
		for _, p := range to.Patches {
			fmt.Fprintf(&got, "-- patch\n%s", fixture.Disassemble(t, p.Code, p.Addr))
		}
		got.WriteString("\n")
	}
	fixture.Compare(t, "testdata/copies.golden", got.String(), "go test -update, then look at the change")
}

// TestPrograms: nearly all functions of real programs could run as copies, and what stays
// home and what leads into the copy do not lie upon each other.
func TestPrograms(t *testing.T) {
	for _, path := range fixture.Programs {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			_, p := load(t, path)
			var units, homes, insts, all, runs, longer, short, landings, extra int
			why := map[ledger.Reason]int{}
			for i := range p.Units() {
				u := &p.Units()[i]
				if u.Reason.Excluded() {
					continue
				}
				units++
				g, reason := p.Graph(i)
				if g == nil {
					why[reason]++
					continue
				}
				all += len(g.Insts)
				h, reason := PlanHome(g)
				if h == nil {
					why[reason]++
					continue
				}
				apart(t, h)
				homes++
				insts += len(g.Insts)
				runs += len(h.Runs)
				landings += len(h.Landings)
				for _, r := range h.Runs {
					if r.End > r.First+1 {
						longer++
						extra += int(r.End-r.First) - 1
					}
				}
				for _, l := range h.Landings {
					if l.Island != 0 {
						short++
					}
				}
			}
			t.Logf("%d of %d units (%.3f %%), %.3f %% of the instructions; %d runs, %d of several instructions (%d more); %d landings, %d by islands; %v",
				homes, units, float64(homes)*100/float64(units), float64(insts)*100/float64(all), runs, longer, extra, landings, short, why)
			if insts*100 < all*89 {
				t.Errorf("%d of %d instructions", insts, all)
			}
		})
	}
}

// apart fails where two of a unit's runs, jumps into the copy and islands lie upon each
// other, or outside of the unit.
func apart(t *testing.T, h *Home) {
	t.Helper()
	g := h.Graph
	var list []held
	for _, r := range h.Runs {
		low := g.Insts[r.First].Addr
		if r.Pushed {
			low = g.Insts[r.First].End()
		}
		if high := g.Insts[r.End-1].End(); low < high {
			list = append(list, held{low, high})
		}
		if r.Resume >= 0 && g.Insts[r.Resume].Addr != g.Insts[r.End-1].End() {
			t.Errorf("behind the run to %x control goes on at %x", g.Insts[r.End-1].End(), g.Insts[r.Resume].Addr)
		}
	}
	for _, l := range h.Landings {
		at := g.Insts[l.Inst].Addr
		if l.Island == 0 {
			list = append(list, held{at, at + jumpSize})
			continue
		}
		list = append(list, held{at, at + shortSize}, held{l.Island, l.Island + jumpSize})
		if d := int64(l.Island) - int64(at+shortSize); d != int64(int8(d)) {
			t.Errorf("the island for %x is at %x", at, l.Island)
		}
	}
	slices.SortFunc(list, func(a, b held) int { return cmp.Compare(a.low, b.low) })
	for i, e := range list {
		if i > 0 && e.low < list[i-1].high || !g.Unit.Contains(e.low) || !g.Unit.Contains(e.high-1) || e.low-g.Unit.Entry() < windowEnd(g)-g.Unit.Entry() && e.high > g.Unit.Entry() && e.low < windowEnd(g) {
			t.Errorf("%x: %x to %x", g.Unit.Entry(), e.low, e.high)
		}
	}
}
