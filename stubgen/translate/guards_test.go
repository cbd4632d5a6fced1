package translate

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/flow"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestGuardsReach goes through functions of real programs on random ways, with registers that have
// random values wherever one is written: each access that can be recorded has a record in front of
// it, or lies in bytes that were checked, since a call or a round of a loop. No check stands where
// flags are live, and the slow copy has the instruction that it leads to.
func TestGuardsReach(t *testing.T) {
	for _, path := range append(lane.Some([]string{"/usr/bin/lua5.4", "/usr/lib/x86_64-linux-gnu/liblzma.so.5.4.1", "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0.8.6", "/usr/bin/perl"}, 0), fixture.Link(t, "../flow/testdata/flow.s"), fixture.Link(t, "testdata/forms.s")) {
		if _, err := os.Stat(path); err != nil {
			t.Logf("not looked at: %v", err)
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			o, p := load(t, path)
			guarded, recorded, kept := 0, 0, 0
			for i := range p.Units() {
				c := lowered(o, p, i)
				if c == nil {
					continue
				}
				g := c.Home.Graph
				c.Count(true)
				c.NoteCallees(o, c.Counters)
				how := Touching{Row: i%4 != 0, Masks: i%2 == 0, Bases: true}
				c.RecordAccesses(o, how)
				live := g.FlagsForCallers()
				for k := range g.Blocks {
					for _, op := range c.ops(k) {
						if op.Kind != Touch || !c.Touches[op.To].Check {
							continue
						}
						check := &c.Touches[op.To]
						if check.ByRCX != (live[op.Inst]&touchChange != 0) || check.ByRCX && !how.Masks {
							t.Errorf("a check in front of %x changes flags", g.Insts[op.Inst].Addr)
						}
						if check.ByRCX {
							kept++
							wants := func(m emit.Mark) bool { return m.Memory.Base == x86.RCX || m.Memory.Index == x86.RCX }
							if slices.ContainsFunc(check.Marks, wants) || check.Scratch != x86.NoRegister && check.Scratch != x86.RCX {
								t.Errorf("a check in front of %x is not by rcx: %+v", g.Insts[op.Inst].Addr, check)
							}
						}
						if !slices.ContainsFunc(c.Slow.ops(k), func(s Op) bool { return s.Inst == op.Inst && s.Kind.runsHere() }) {
							t.Errorf("the check in front of %x leads nowhere", g.Insts[op.Inst].Addr)
						}
					}
				}
				for n := range 4 {
					w := guardWalk{walk: walk{t: t, how: how, code: c, obj: o, granule: emit.GranulePage, rand: rand.New(rand.NewPCG(uint64(i), uint64(n)))}}
					w.from(w.rand.IntN(len(g.Blocks)), n == 0)
					guarded, recorded = guarded+w.guarded, recorded+w.recorded
				}
				if t.Failed() {
					t.Fatalf("%s:\n%s", o.Functions[g.Unit.Function].Name, c.Text(o))
				}
			}
			t.Logf("%d accesses were checked before, %d have a record; %d checks keep flags", guarded, recorded, kept)
			if guarded == 0 || kept == 0 {
				t.Error("nothing was looked at")
			}
		})
	}
}

// guardWalk is a way through a function with guards.
type guardWalk struct {
	walk
	checked  []uint64 // where they begin, since a time
	guarded  int
	recorded int
}

func (w *guardWalk) from(k int, entry bool) {
	const longest = 60
	g := w.code.Home.Graph
	if entry {
		k = g.Entry
	}
	if w.code.Slow.Known[k] {
		return // what leads there has checked something
	}
	for r := range w.regs {
		w.regs[r] = w.value()
	}
	w.newBases()
	order := w.code.Nest.Order()
	for at := int32(k); ; {
		w.block(at)
		succs := g.Blocks[at].Succs
		if len(succs) == 0 || w.rand.IntN(longest) == 0 {
			return
		}
		e := succs[w.rand.IntN(len(succs))]
		if slices.Index(order, e.To) <= slices.Index(order, at) || waits(g.Last(&g.Blocks[at])) { // another time
			w.checked = nil
		}
		if e.Kind == flow.Return || e.Kind == flow.Unwind {
			w.checked = nil
			w.newBases()
			for r := range w.regs {
				w.regs[r] = w.value()
			}
		}
		at = e.To
	}
}

func (w *guardWalk) block(k int32) {
	var records []*emit.Touch
	for _, op := range w.code.ops(int(k)) {
		switch {
		case op.Kind == Touch && w.code.Touches[op.To].Check:
			for i := range w.code.Touches[op.To].Marks {
				w.checked = append(w.checked, w.at(&w.code.Touches[op.To].Marks[i]))
			}
		case op.Kind == Touch:
			records = append(records, &w.code.Touches[op.To])
		case op.Kind.runsHere():
			w.accessesOf(op.Inst, records)
			w.instruction(op.Inst)
			records = nil
		}
	}
}

// formsGo reports whether an instruction has forms; then what is in front of it is these.
func formsGo(t *testing.T, o *stubgen.Object, how *Touching, in *flow.Inst, records []*emit.Touch) bool {
	var all [x86.MaxOperands]x86.Operand
	var want []emit.Form
	rare := false
	code := o.Code(in.Addr)[:in.Len]
	for i, p := range all[:in.Operands(code, &all)] {
		if p.Kind&(x86.OperandLoad|x86.OperandStore) == 0 {
			continue
		}
		f, ok := in.Form(code, &p)
		if !ok || p.Segment == x86.SegmentGS && how.Row {
			return false
		}
		if p.Base == x86.RIP {
			f.Disp += int64(in.Len)
		}
		rare = rare || !p.Linear() || p.Disp > emit.MostDisplacement
		want = append(want, emit.Form{Form: f, Second: i > 0})
	}
	if rare && (len(records) != 1 || !slices.Equal(records[0].Forms, want)) {
		t.Errorf("%x: %+v, not %+v", in.Addr, records, want)
	}
	return rare
}

func (w *guardWalk) at(m *emit.Mark) uint64 {
	if m.At != 0 {
		return uint64(m.At)
	}
	return w.address(m.Memory, int64(m.Memory.Disp)) + uint64(m.Ahead)
}

func (w *guardWalk) accessesOf(inst int32, records []*emit.Touch) {
	in := &w.code.Home.Graph.Insts[inst]
	var all [x86.MaxOperands]x86.Operand
	if formsGo(w.t, w.obj, &w.how, in, records) {
		return
	}
	for i, p := range all[:in.Operands(w.obj.Code(in.Addr)[:in.Len], &all)] {
		if !w.how.isRecorded(&p) {
			continue
		}
		at := uint64(w.obj.Run(in.End() + uint64(p.Disp)))
		if p.Base != x86.RIP {
			at = w.address(classOf(&p), p.Disp)
		}
		if len(records) > 0 && records[0].Record == emit.Record(&p, i > 0) && w.at(&records[0].Marks[0]) == at {
			records = records[1:]
			w.recorded++
			continue
		}
		w.guarded++
		n := uint64(p.Size) * uint64(p.Count)
		if !slices.ContainsFunc(w.checked, func(from uint64) bool { return at-from <= emit.RecordMost-n }) {
			w.t.Errorf("%x: operand %d is not checked", in.Addr, i)
		}
	}
	if len(records) > 0 {
		w.t.Errorf("%x: records of no operand", in.Addr)
	}
}

// instruction has others be in the registers that one writes.
func (w *guardWalk) instruction(inst int32) {
	in := &w.code.Home.Graph.Insts[inst]
	code := w.obj.Code(in.Addr)[:in.Len]
	var all [x86.MaxOperands]x86.Operand
	operands := all[:in.Operands(code, &all)]
	written := in.Effects(code).Written.G
	by, known := movesStack(in, code, operands)
	if w.regs[x86.RSP] += uint64(int64(by)); !known {
		written |= 1 << x86.RSP
	}
	if setsBases(in) {
		w.newBases()
	}
	for r := range w.regs {
		if written>>r&1 != 0 {
			w.regs[r] = w.value()
		}
	}
}
