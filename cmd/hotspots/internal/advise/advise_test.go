package advise

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/callgraph"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/table"
	noted "github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// fileOf is what is beside a table, with those slices, a hundred instructions each.
func fileOf(t *testing.T, maps *noted.Maps, all ...[]noted.Range) *noted.File {
	t.Helper()
	var log noted.Log
	for i, ranges := range all {
		log.Add(&noted.Slice{Executed: uint64(i+1) * 100, Time: uint64(i + 1), Parts: 1, Ranges: ranges})
	}
	path := filepath.Join(t.TempDir(), "a")
	if err := log.Close(path, [16]byte{}, maps); err != nil {
		t.Fatal(err)
	}
	f, err := noted.Read(path, [16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mapOf(t *testing.T, maps *noted.Maps, all ...[]noted.Range) *heat.Map {
	t.Helper()
	return heat.New(fileOf(t, maps, all...), nil, heat.Show{})
}

func pagesAt(first, n uint64, what noted.What) noted.Range {
	return noted.Range{First: first, Pages: n, What: what}
}

const both = noted.WasRead | noted.WasWritten

// TestOverlayOfPaper: page b begins when a is dead, so that they can be one; c is before and
// behind both, and cannot (Mibu, Takahashi, Sugawara, figure 5).
func TestOverlayOfPaper(t *testing.T) {
	const a, b, c = 10, 20, 30
	o := overlay(mapOf(t, &noted.Maps{},
		[]noted.Range{pagesAt(a, 1, noted.WasWritten), pagesAt(c, 1, both)},
		[]noted.Range{pagesAt(a, 1, noted.WasRead)},
		[]noted.Range{pagesAt(b, 1, noted.WasWritten)},
		[]noted.Range{pagesAt(b, 1, noted.WasRead), pagesAt(c, 1, noted.WasRead), pagesAt(99, 5, noted.WasRead)},
	))
	frame := map[uint64]uint64{}
	for _, p := range o.Places {
		frame[p.page()] = p.Frame
	}
	if o.Used != 3 || o.Frames != 2 || frame[a] != frame[b] || frame[a] == frame[c] {
		t.Errorf("%+v", o)
	}
}

// TestOverlayMeet: of pages that end in the slice in which others begin nothing is promised, and
// it is said how many fewer it may be.
func TestOverlayMeet(t *testing.T) {
	m := mapOf(t, &noted.Maps{},
		[]noted.Range{pagesAt(10, 64, both)},
		[]noted.Range{pagesAt(10, 64, both), pagesAt(100, 64, both)},
		[]noted.Range{pagesAt(100, 64, both)},
	)
	l := List{}
	l.overlay(m)
	if len(l.Advice) != 1 || l.Advice[0].Pages != 0 || l.Advice[0].AtMost != 64 {
		t.Fatalf("%+v", l.Advice)
	}
	var text strings.Builder
	if err := l.Text(&text, report.Style{}); err != nil || !strings.Contains(text.String(), "0 to 64 pages less") || !strings.Contains(text.String(), "it may be 64") {
		t.Errorf("%v: %s", err, text.String())
	}
}

// TestHidden: where something is not seen there is no advice on what nobody is seen to touch.
func TestHidden(t *testing.T) {
	maps := &noted.Maps{Ended: true, Mappings: []noted.Mapping{{Start: 10 * noted.PageSize, End: 30 * noted.PageSize, Resident: 9 * noted.PageSize, Path: "[heap]"}}}
	f := fileOf(t, maps, []noted.Range{pagesAt(10, 4, both)})
	seen, not := List{}, List{}
	seen.untouched(f, nil)
	not.untouched(f, []string{"libc.so.6"})
	if len(seen.Advice) != 1 || seen.Advice[0].Pages != 5 || len(seen.Hidden) != 0 {
		t.Errorf("all is seen: %+v", seen)
	}
	if want := []Hidden{{Memory: "[heap]", Pages: 5, Objects: []string{"libc.so.6"}}}; len(not.Advice) != 0 || !reflect.DeepEqual(not.Hidden, want) {
		t.Errorf("libc is not seen: %+v", not)
	}
}

// TestOverlayRandom: there are as many frames as pages are alive at a time, no two pages that
// are alive have the same, and a replay says so; and that it is not so, where it is not.
func TestOverlayRandom(t *testing.T) {
	const pages, times = 60, 25
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		all := make([][]noted.Range, times)
		first, last := map[uint64]int{}, map[uint64]int{}
		for k := range all {
			for p := uint64(r.IntN(pages)); p < pages; p += 2 + uint64(r.IntN(pages)) {
				n := min(uint64(1+r.IntN(4)), pages-p)
				all[k] = append(all[k], pagesAt(p, n, both))
				for q := p; q < p+n; q++ {
					if _, had := first[q]; !had {
						first[q] = k
					}
					last[q] = k
				}
				p += n
			}
		}
		most := 0
		for k := range all {
			n := 0
			for p := range first {
				if first[p] <= k && k <= last[p] {
					n++
				}
			}
			most = max(most, n)
		}
		least := 0 // by moments, of which slice k has the one in its middle and the one behind it
		for k := range all {
			in, behind := 0, 0
			for p := range first {
				if first[p] < k && k < last[p] || first[p] == k && k == last[p] {
					in++
				}
				if first[p] <= k && k < last[p] {
					behind++
				}
			}
			least = max(least, in, behind)
		}
		m := mapOf(t, &noted.Maps{}, all...)
		o := overlay(m)
		if o.Least != uint64(least) {
			t.Fatalf("seed %d: %d frames at least, not %d", seed, o.Least, least)
		}
		if o.Used != uint64(len(first)) || o.Frames != uint64(most) {
			t.Fatalf("seed %d: %d pages in %d frames, not %d in %d", seed, o.Used, o.Frames, len(first), most)
		}
		if err := o.replay(m); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		o.Frames = 1
		for i := range o.Places {
			for n := range o.Places[i].Pages {
				one := o.Places[i]
				one.Address, one.Pages, one.Frame = one.Address+report.Address(n*noted.PageSize), 1, 0
				o.Places = append(o.Places, one)
			}
			o.Places[i].Pages = 0
		}
		if err := o.replay(m); most > 1 && !errors.Is(err, errClash) {
			t.Fatalf("seed %d: in one frame: %v", seed, err)
		}
	}
}

// TestOverlayMost: a file that says that everything was touched takes no more memory than
// another, and is not replayed.
func TestOverlayMost(t *testing.T) {
	const most = 1 << 35
	m := mapOf(t, &noted.Maps{}, []noted.Range{pagesAt(0, most, both)}, []noted.Range{pagesAt(5, most-5, both)})
	o := overlay(m)
	if err := o.replay(m); o.Used != most || o.Frames != most || !errors.Is(err, errTooLarge) {
		t.Errorf("%+v: %v", o, err)
	}
}

// TestReplayForeign: pages of others beside those that are placed, as many as there are, are
// passed over.
func TestReplayForeign(t *testing.T) {
	m := mapOf(t, &noted.Maps{}, []noted.Range{pagesAt(1, 2, both)}, []noted.Range{pagesAt(10, 1<<34, noted.WasRead)}, []noted.Range{pagesAt(2, 1, both)})
	o := overlay(m)
	if err := o.replay(m); err != nil || o.Used != 2 {
		t.Errorf("%+v: %v", o, err)
	}
}

// TestDead: what was written and touched last in the first half, and is still mapped.
func TestDead(t *testing.T) {
	maps := &noted.Maps{Ended: true, Mappings: []noted.Mapping{
		{Start: 10 * noted.PageSize, End: 20 * noted.PageSize, Path: "[heap]", Resident: 9 * noted.PageSize},
		{Start: 40 * noted.PageSize, End: 50 * noted.PageSize, Resident: 9 * noted.PageSize},
		{Start: 60 * noted.PageSize, End: 70 * noted.PageSize, Path: "/lib/a.so", Resident: 9 * noted.PageSize},
	}}
	all := [][]noted.Range{
		{pagesAt(10, 4, both), pagesAt(30, 4, both), pagesAt(40, 1, noted.WasRead)},
		{pagesAt(41, 2, noted.WasWritten)},
		{pagesAt(11, 1, noted.WasRead), pagesAt(43, 1, both)},
		{pagesAt(60, 1, noted.WasRead)},
	}
	f := fileOf(t, maps, all...)
	if got := dead(heat.New(f, nil, heat.Show{}), 0.5); len(got) != 2 || got[0].Memory != "[heap]" || got[0].Pages != 3 || got[1].Memory != "[anonymous]" || got[1].Pages != 2 {
		t.Errorf("%+v", got)
	}
	if got, want := untouched(f), []Untouched{{"[heap]", 9, 4}, {"[anonymous]", 9, 4}}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
	if got := dead(mapOf(t, maps), 0.5); got != nil {
		t.Errorf("without slices: %v", got)
	}
}

// TestOrder: functions that ran, callees behind their most frequent callers, those that execute
// most in a byte first; all that has the same name, and nothing else.
func TestOrder(t *testing.T) {
	tab, flow := &table.Table{}, &table.Flow{}
	tab.Objects = []layout.Object{{Path: "/bin/a"}}
	add := func(name string, at uint64, size uint32, runs uint64) {
		number := uint32(len(tab.Functions))
		tab.Functions = append(tab.Functions, layout.Function{Address: at, Size: size, Name: name})
		flow.Blocks = append(flow.Blocks, table.Block{Block: layout.Block{Address: at, Function: number, Instructions: 1, Size: 4}, Runs: runs})
	}
	add("main", 0x1000, 64, 1)
	add("cold", 0x1040, 4000, 0)
	add("hot", 0x2000, 128, 1000)
	add("leaf", 0x5000, 32, 2000)
	add("", 0x6000, 32, 5)
	add("same", 0x7000, 16, 0)
	add("same", 0x8000, 16, 3)
	g := &callgraph.Graph{}
	edge := func(from, to string, calls uint64) {
		for _, name := range []string{from, to} {
			g.Functions = append(g.Functions, callgraph.Function{Name: name})
		}
		n := len(g.Functions)
		g.Edges = append(g.Edges, callgraph.Edge{Caller: n - 2, Callee: n - 1, Calls: calls})
	}
	edge("main", "hot", 1)
	edge("main", "leaf", 1)
	edge("hot", "leaf", 1999)
	edge("hot", "cold", 9)
	o := orderOf(tab, make([]uint64, len(tab.Functions)), flow, g, 0)
	if want := []string{"main", "hot", "leaf", "same"}; !slices.Equal(o.Names, want) {
		t.Errorf("%q, not %q", o.Names, want)
	}
	if o.Functions != 7 || o.Ran != 5 || o.Unnamed != 1 || o.Before != 5 || o.After != 2 {
		t.Errorf("%+v", o)
	}
	for linker, want := range map[string]string{
		lld: "main\nhot\nleaf\nsame\n", gold: ".text.main\n.text.hot.main\n.text.startup.main\n.text.hot\n",
		ld: "/* Functions of a that ran, of hotspots advise: link with -Wl,-T,FILE. */\nSECTIONS\n{\n  .text.ordered :\n  {\n    *(.text.main) *(.text.hot.main) *(.text.startup.main)\n",
	} {
		var out bytes.Buffer
		if err := o.Write(&out, linker); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: %q, %v", linker, out.String(), err)
		}
	}
	l := List{Program: "/bin/a", orders: []*Order{o}}
	for name, ok := range map[string]bool{"": true, "a": true, "/bin/a": true, "b": false} {
		if got, err := l.Order(name); (err == nil) != ok || ok && got != o {
			t.Errorf("%q: %v", name, err)
		}
	}
}
