package flow

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/elfscan"
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
				if want := last.BranchTarget(p.obj.Code(last.Addr), last.Addr); at != want && !(at == want-1 && p.obj.Code(at)[0] == 0xf0) {
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
				nest := g.Loops()
				loops += len(nest.Loops)
				blocks += len(g.Blocks)
				largest = max(largest, len(g.Insts))
				if !nest.Whole {
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

// TestBounds: what a file may be made of without end has no graph.
func TestBounds(t *testing.T) {
	const text, table = 0x401000, 0x10000000
	jumps := bytes.Repeat([]byte{0xff, 0x24, 0xc5, 0, 0, 0, 0x10}, 1100) // jmp *table(,%rax,8)
	var leads []byte
	for i := range 1100 {
		leads = binary.LittleEndian.AppendUint64(leads, text+7*uint64(i))
	}
	var leas []byte // lea table+8*i(%rip), %rax
	for i := range 1500 {
		leas = append(leas, 0x48, 0x8d, 0x05)
		leas = binary.LittleEndian.AppendUint32(leas, uint32(table+8*i-(text+7*(i+1))))
	}
	leas = append(leas, 0xff, 0xe0)
	first := bytes.Repeat(binary.LittleEndian.AppendUint64(nil, text), 1500)
	for _, row := range []struct {
		name       string
		code, data []byte
	}{
		{"edges", jumps, leads},
		{"tables", leas, first},
		{"instructions", bytes.Repeat([]byte{0x90}, mostInsts+1), nil},
	} {
		o := &stubgen.Object{
			Absolute:  true,
			Text:      []stubgen.Segment{{Addr: text, Code: row.code}},
			Data:      []stubgen.Segment{{Addr: table, Code: row.data}},
			Functions: []elfscan.Function{{Addr: text, Size: uint64(len(row.code)), Name: "f", Source: ledger.SourceSymtab}},
			Ranges:    []elfscan.Range{{Low: text, High: text + uint64(len(row.code))}},
		}
		p := New(survey.New(o, 1), nil, 1)
		if g, why := p.Graph(0); g != nil || why != ledger.ReasonUndecodable {
			t.Errorf("%s: graph %t, %q", row.name, g != nil, why)
		}
	}
}
