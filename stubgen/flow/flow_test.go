package flow

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// load is the units of a file.
func load(t testing.TB, path string) (*stubgen.Object, *Program) {
	t.Helper()
	o, sites := fixture.LoadWhole(t, path)
	return o, New(survey.New(o, 0), sites, 0)
}

// TestGolden compares the graphs of flow.s with flow.golden.
func TestGolden(t *testing.T) {
	o, p := load(t, fixture.Link(t, "testdata/flow.s"))
	var got strings.Builder
	for i, u := range p.Units() {
		g, why := p.Graph(i)
		fmt.Fprintf(&got, "== %s: ", o.Functions[u.Function].Name)
		if g == nil {
			fmt.Fprintf(&got, "%s\n\n", why)
			continue
		}
		sound(t, p, g)
		fmt.Fprintf(&got, "%s\n", g.Text(o))
	}
	fixture.Compare(t, "testdata/flow.golden", got.String(), "go test -update, then look at the change")
}

// sound fails unless a graph is what it says: each instruction is in one block, nothing
// arrives in the middle of one, and edges lead where the instructions do.
func sound(t testing.TB, p *Program, g *Graph) {
	t.Helper()
	name := p.obj.Functions[g.Unit.Function].Name
	starts := map[uint64]int32{}
	next := int32(0)
	for k := range g.Blocks {
		b := &g.Blocks[k]
		if b.First != next || b.End <= b.First {
			t.Fatalf("%s: block %d has instructions [%d, %d), the one in front ends at %d", name, k, b.First, b.End, next)
		}
		next = b.End
		starts[g.Addr(b)] = int32(k)
		for i := b.First; i < b.End-1; i++ {
			if ends(&g.Insts[i]) || g.Insts[i].End() != g.Insts[i+1].Addr {
				t.Fatalf("%s: block %d goes on behind %x", name, k, g.Insts[i].Addr)
			}
		}
		if len(b.Succs) == 0 && b.Leaves == 0 {
			t.Fatalf("%s: block %d leads nowhere", name, k)
		}
	}
	if next != int32(len(g.Insts)) || g.Addr(&g.Blocks[g.Entry]) != g.Unit.Entry() {
		t.Fatalf("%s: %d of %d instructions in blocks, entry %x", name, next, len(g.Insts), g.Addr(&g.Blocks[g.Entry]))
	}
	for _, r := range g.Unit.Ranges {
		for _, a := range p.arrivalsIn(r.Low, r.High) {
			if _, ok := starts[a.at]; !ok && a.sure && a.ways != ByPointer {
				t.Fatalf("%s: %x is arrived at (%s), and no block", name, a.at, a.ways)
			}
		}
	}
	for k := range g.Blocks {
		last := g.Last(&g.Blocks[k])
		for _, e := range g.Blocks[k].Succs {
			at := g.Addr(&g.Blocks[e.To])
			switch e.Kind {
			case Fall, Return:
				if at != last.End() {
					t.Fatalf("%s: block %d falls to %x", name, k, at)
				}
			case Taken:
				if want := last.BranchTarget(p.obj.Code(last.Addr), last.Addr); at != want {
					t.Fatalf("%s: block %d jumps to %x, not %x", name, k, at, want)
				}
			}
		}
	}
}

// TestPrograms: the graphs of real programs are sound, and nearly all units have one.
func TestPrograms(t *testing.T) {
	for _, path := range fixture.Programs {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			_, p := load(t, path)
			var units, graphs, insts, all, blocks, loops, circles, largest int
			why := map[ledger.Reason]int{}
			for i := range p.Units() {
				u := &p.Units()[i]
				if u.Reason.Excluded() {
					continue
				}
				units++
				bytes := 0
				for _, r := range u.Ranges {
					bytes += int(r.High - r.Low)
				}
				all += bytes
				g, reason := p.Graph(i)
				if g == nil {
					why[reason]++
					continue
				}
				graphs++
				insts += bytes
				sound(t, p, g)
				list, whole := g.Loops()
				loops += len(list)
				blocks += len(g.Blocks)
				largest = max(largest, len(g.Insts))
				if !whole {
					circles++
				}
			}
			t.Logf("%d of %d units, %.3f %% of the bytes; %d blocks, %d loops, %d units with other circles, %d instructions at most; %v",
				graphs, units, float64(insts)*100/float64(all), blocks, loops, circles, largest, why)
			if graphs*100 < units*99 {
				t.Errorf("%d of %d units have a graph: %v", graphs, units, why)
			}
		})
	}
}
