package translate

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
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

// encode is a copy with its counters behind the count of its function, and what leads to it.
func encode(t *testing.T, c *Code, o *stubgen.Object, called bool) ([]byte, []Patch, error) {
	t.Helper()
	c.RebuildTables(o)
	c.Count(called)
	return encodeCounted(t, c, o)
}

// encodeCounted is a copy with the counters that it has, and notes.
func encodeCounted(t *testing.T, c *Code, o *stubgen.Object) ([]byte, []Patch, error) {
	t.Helper()
	w := NewWriter(c, o, Counter{Row: 0x80, Number: 0x14, Notes: emit.Notes{Number: 0x14, Slots: 0x1000, Sets: 16}})
	spec := emit.Spec{Start: WindowEnd(c.Home.Graph) - jumpSize, Size: emit.CountSize(false, false, false) + c.Size(o, false), Copy: w}
	dst := make([]byte, spec.Size)
	e := emit.Emitter{Origins: &emit.Origins{Base: fixture.ArenaAt}}
	stub, err := e.Emit(o, &spec, dst, fixture.ArenaAt, emit.Count{Counter: 0x78})
	if err != nil {
		return nil, nil, err
	}
	checkOrigins(t, o, c, e.Origins, int(stub.Len))
	return dst[:stub.Len], w.Patches, nil
}

// checkOrigins: each instruction of the copy stands for one of the unit, and of those that
// are no call at home each has a copy.
func checkOrigins(t *testing.T, o *stubgen.Object, c *Code, s *emit.Origins, size int) {
	t.Helper()
	le, g := binary.LittleEndian, c.Home.Graph
	found := map[uint64]bool{}
	at := 0
	for r := s.Records; len(r) > 0; r = r[emit.OriginSize:] {
		if n := int(le.Uint32(r)); n != at && !(n > at && len(r) == len(s.Records)) {
			t.Errorf("a run at %#x, the one before ends at %#x", n, at)
		}
		from := uint64(fixture.ArenaAt) + uint64(int64(int32(le.Uint32(r[4:])))) - o.Bias
		lengths := s.Lengths[le.Uint32(r[8:]):]
		n := int(le.Uint16(r[12:]))
		at = int(le.Uint32(r)) + int(r[14])
		for ; n > 0; n-- {
			found[from] = true
			from += uint64(lengths[0] &^ 0xc0) // without what is marked
			at += int(lengths[1])
			lengths = lengths[2:]
		}
	}
	if at > size {
		t.Errorf("runs of %d bytes, code of %d", at, size)
	}
	for k := range g.Blocks {
		ops, end := c.ops(k), g.Blocks[k].End
		if last := ops[len(ops)-1]; last.Kind == Stay {
			end = last.Inst + 1
		}
		for _, in := range g.Insts[g.Blocks[k].First:end] {
			if !found[in.Addr] && in.Kind != x86.Endbr {
				t.Errorf("%#x has no copy", in.Addr)
			}
		}
	}
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
		code, patches, err := encode(t, c, o, true)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "\n%s-- encoded\n%s", c.Text(o), fixture.Disassemble(t, code, uint64(fixture.ArenaAt)))
		for _, p := range patches {
			fmt.Fprintf(&got, "-- patch\n%s", fixture.Disassemble(t, p.Code, p.Addr))
		}
		got.WriteString("\n")
		if c = Lower(h); !notes(c, o) {
			continue
		}
		if code, _, err = encodeCounted(t, c, o); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "-- with notes\n%s-- encoded\n%s\n", c.Text(o), fixture.Disassemble(t, code, uint64(fixture.ArenaAt)))
	}
	fixture.Compare(t, "testdata/copies.golden", got.String(), "go test -update, then look at the change")
}

// notes puts counters and notes into a copy, and reports whether it has any of these.
func notes(c *Code, o *stubgen.Object) bool {
	c.RebuildTables(o)
	c.Count(true)
	return c.NoteCallees(o, c.Counters) > 0
}

// TestGoldenTrips compares copies of flow.s in which the trips of loops are counted with
// trips.golden.
func TestGoldenTrips(t *testing.T) {
	o, p := load(t, fixture.Link(t, "../flow/testdata/flow.s"))
	var got strings.Builder
	for i, u := range p.Units() {
		g, _ := p.Graph(i)
		if g == nil {
			continue
		}
		h, _ := PlanHome(g)
		if h == nil {
			continue
		}
		c := Lower(h)
		c.CountTrips()
		code, patches, err := encode(t, c, o, true)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Trips) == 0 {
			continue
		}
		fmt.Fprintf(&got, "== %s:\n%s-- encoded\n%s", o.Functions[u.Function].Name, c.Text(o), fixture.Disassemble(t, code, uint64(fixture.ArenaAt)))
		for _, p := range patches {
			fmt.Fprintf(&got, "-- patch\n%s", fixture.Disassemble(t, p.Code, p.Addr))
		}
		if code, _, err = encodeCounted(t, c.uncounted(o), o); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "-- without counters, encoded\n%s\n", fixture.Disassemble(t, code, uint64(fixture.ArenaAt)))
	}
	fixture.Compare(t, "testdata/trips.golden", got.String(), "go test -update, then look at the change")
}

// TestGoldenTouches compares copies of flow.s in which touched pages are noted with
// touches.golden.
func TestGoldenTouches(t *testing.T) {
	for _, masks := range []bool{false, true} {
		name := "testdata/touches.golden"
		if masks {
			name = "testdata/touches_masks.golden"
		}
		fixture.Compare(t, name, touchedText(t, masks), "go test -update, then look at the change")
	}
}

// lowered is the copy of a unit, without counters yet; nil: it has none.
func lowered(o *stubgen.Object, p *flow.Program, i int) *Code {
	g, _ := p.Graph(i)
	if g == nil {
		return nil
	}
	h, _ := PlanHome(g)
	if h == nil {
		return nil
	}
	c := Lower(h)
	c.RebuildTables(o)
	return c
}

func touchedText(t *testing.T, masks bool) string {
	o, p := load(t, fixture.Link(t, "../flow/testdata/flow.s"))
	var got strings.Builder
	for i, u := range p.Units() {
		c := lowered(o, p, i)
		if c == nil {
			continue
		}
		c.Count(true)
		c.NoteCallees(o, c.Counters)
		if c.NoteTouches(o, Touching{Row: true, Masks: masks, Granule: emit.GranulePage}); len(c.Touches) == 0 {
			continue
		}
		code, _, err := encodeCounted(t, c, o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "== %s:\n%s-- encoded\n%s\n", o.Functions[u.Function].Name, c.Text(o), fixture.Disassemble(t, code, uint64(fixture.ArenaAt)))
	}
	return got.String()
}

// TestPrograms: nearly all functions of real programs could run as copies, and what stays
// home and what leads into the copy do not lie upon each other.
func TestPrograms(t *testing.T) {
	for _, path := range lane.Some(fixture.Programs, 0, 1, 2, 5, 6, 8) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			o, p := load(t, path)
			var units, homes, insts, all, runs, longer, short, landings, extra int
			var tables, dispatches, blocks, counters, kept, detours, ahead int
			why := map[ledger.Reason]int{}
			trips := map[TripReason]int{}
			var bytes sizes
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
				c := Lower(h)
				c.RebuildTables(o)
				c.CountTrips()
				c.Count(true)
				for _, trip := range c.Trips {
					trips[trip.Why]++
				}
				tables += len(c.Tables)
				for i := range g.Blocks {
					if last := g.Last(&g.Blocks[i]); last.Kind == x86.JmpInd && !last.RIPRel() {
						dispatches++
					}
				}
				encodeSomehow(t, c, o, i)
				bytes.add(c, o)
				blocks, counters, detours = blocks+len(c.Blocks), counters+int(c.Counters), detours+len(c.Detours)
				for _, op := range c.Ops {
					if op.Kind == Count && op.Keep {
						kept++
					}
				}
				for _, d := range c.Detours {
					if d.Ahead {
						ahead++
					}
				}
			}
			t.Logf("%d of %d jumps by registers and tables have a table of their own", tables, dispatches)
			t.Logf("trips of %d loops; of %d entries cannot be told, of %d flags are live", trips[0], trips[TripUntold], trips[TripFlags])
			t.Logf("%d counters of %d blocks (%.1f %%), %d detours, %d of them ahead, %d with flags kept", counters, blocks, float64(counters)*100/float64(blocks), detours, ahead, kept)
			t.Logf("%+v", bytes)
			t.Logf("%d of %d units (%.3f %%), %.3f %% of the instructions; %d runs, %d of several instructions (%d more); %d landings, %d by islands; %v",
				homes, units, float64(homes)*100/float64(units), float64(insts)*100/float64(all), runs, longer, extra, landings, short, why)
			if insts*100 < all*89 {
				t.Errorf("%d of %d instructions", insts, all)
			}
		})
	}
}

// encodeSomehow encodes a copy in one of its forms, at one of the places in a line, by turns: it
// fits, and what is short reaches.
func encodeSomehow(t *testing.T, c *Code, o *stubgen.Object, turn int) {
	t.Helper()
	at := fixture.ArenaAt.Add(emit.Alignment * (turn % 4))
	w := NewWriter(c, o, Counter{Row: 0x80, Number: 0x14})
	spec := emit.Spec{Start: WindowEnd(c.Home.Graph) - jumpSize, Size: emit.CountSize(false, false, false) + c.Size(o, false), Copy: w}
	if turn%3 > 0 {
		spec.Size, spec.Copy = emit.CountSize(false, false, false)+c.SizeOfPair(o, false), NewPair(w, true, turn%3 > 1)
	}
	var e emit.Emitter
	if _, err := e.Emit(o, &spec, make([]byte, spec.Size), at, emit.Count{Counter: 0x78}); err != nil {
		t.Errorf("%x: %v", c.Home.Graph.Unit.Entry(), err)
	}
	whole(t, c, w.Patches)
}

// whole fails where a patch is in what a copy goes home to.
func whole(t *testing.T, c *Code, patches []Patch) {
	t.Helper()
	g := c.Home.Graph
	list := []held{{g.Unit.Entry(), WindowEnd(g)}}
	for _, p := range patches {
		list = append(list, held{p.Addr, p.Addr + uint64(len(p.Code))})
	}
	slices.SortFunc(list, func(a, b held) int { return cmp.Compare(a.low, b.low) })
	for k := range g.Blocks {
		ops := c.ops(k)
		last := ops[len(ops)-1]
		if last.Kind != Stay {
			continue
		}
		low, high := g.Insts[last.Inst].Addr, g.Last(&g.Blocks[k]).End()
		if i, _ := slices.BinarySearchFunc(list, high, func(h held, at uint64) int { return cmp.Compare(h.low, at) }); i > 0 && list[i-1].high > low {
			t.Errorf("%x: from %x to %x it is home, and at %x a patch", g.Unit.Entry(), low, high, list[i-1].low)
		}
	}
}

// sizes are bytes of copies by what they are for, without functions' own counts, and of the
// text that they are of.
type sizes struct {
	Text, Copies, Instructions, Counts, FlagsKept, Home, Short, Long, Detours, Tables int
}

func (s *sizes) add(c *Code, o *stubgen.Object) {
	before := *s
	for _, r := range c.Home.Graph.Unit.Ranges {
		s.Text += int(r.High - r.Low)
	}
	for i := range c.Ops {
		op, in := &c.Ops[i], &c.Home.Graph.Insts[c.Ops[i].Inst]
		switch op.Kind {
		case Count:
			s.count(op.Keep)
		case Stay, Follow:
			s.Home += jumpSize
		case Branch:
			if op.Short {
				s.Short += shortSize
			} else {
				s.Long += emit.MovedSize(o, &in.Inst, in.Addr)
			}
		default:
			s.Instructions += emit.MovedSize(o, &in.Inst, in.Addr)
		}
	}
	for i := range c.Detours {
		if d := &c.Detours[i]; d.Counter != NoCounter {
			s.count(d.Keep)
		}
		if d := &c.Detours[i]; !d.Ahead && d.Short {
			s.Detours += shortSize
		} else if !d.Ahead {
			s.Detours += jumpSize
		}
	}
	for i, first := range c.alike(o) {
		if i == first {
			s.Tables += c.Tables[i].Size()
		}
	}
	s.Copies += s.all() - before.all()
}

func (s *sizes) all() int {
	return s.Instructions + s.Counts + s.FlagsKept + s.Home + s.Short + s.Long + s.Detours + s.Tables
}

func (s *sizes) count(keep bool) {
	s.Counts += emit.CountSize(false, false, false)
	s.FlagsKept += emit.CountSize(keep, false, false) - emit.CountSize(false, false, false)
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
		if i > 0 && e.low < list[i-1].high || !g.Unit.Contains(e.low) || !g.Unit.Contains(e.high-1) || e.low-g.Unit.Entry() < WindowEnd(g)-g.Unit.Entry() && e.high > g.Unit.Entry() && e.low < WindowEnd(g) {
			t.Errorf("%x: %x to %x", g.Unit.Entry(), e.low, e.high)
		}
	}
}
