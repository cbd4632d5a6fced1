package translate

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/flow"
)

// Accesses that are recorded, if they are to a region. Each operand in memory has a check of its
// own in front of its instruction, by its first byte, and nothing is left out: what a touch may
// note once is here to be seen each time.

// RecordAccesses puts a record in front of each access that can have one (x86.Operand.Plain). It
// comes behind Count or CountAs, and NoteCallees, in place of NoteTouches.
func (c *Code) RecordAccesses(o *stubgen.Object, how Touching) {
	g := c.Home.Graph
	t := toucher{code: c, obj: o, how: Touching{Row: how.Row}, live: g.FlagsForCallers()}
	if how.Row {
		t.dead = g.DeadRegisters(func(in *flow.Inst) []byte { return o.Code(in.Addr)[:in.Len] })
	}
	ops, begins := make([]Op, 0, 2*len(c.Ops)), make([]int32, 0, len(g.Blocks))
	for k := range g.Blocks {
		begins = append(begins, int32(len(ops)))
		for i, op := range c.ops(k) {
			if t.isFirst(c.ops(k), i) {
				for n := t.records(op.Inst); n > 0; n-- {
					ops = append(ops, Op{Kind: Touch, Inst: op.Inst, To: int32(len(c.Touches)) - n})
				}
			}
			ops = append(ops, op)
		}
	}
	c.Ops, c.Begins = ops, begins
}

// records adds the records of an instruction, and says how many there are.
func (t *toucher) records(inst int32) (n int32) {
	in := &t.code.Home.Graph.Insts[inst]
	var all [x86.MaxOperands]x86.Operand
	operands := all[:in.Operands(t.obj.Code(in.Addr)[:in.Len], &all)]
	for i := range operands {
		p := &operands[i]
		if p.Kind&(x86.OperandLoad|x86.OperandStore) == 0 || !Recorded(p) {
			continue
		}
		touch, _ := t.touchAt(inst)
		m := emit.Mark{Memory: x86.Memory{Base: p.Base, Index: p.Index, Scale: p.Scale, Disp: int32(p.Disp)}, Kind: p.Kind & (x86.OperandLoad | x86.OperandStore)}
		if p.Base == x86.RIP {
			m.Memory, m.At = x86.Memory{}, t.obj.Run(uint64(p.Disp+int64(in.End())))
		}
		touch.Marks, touch.Record = []emit.Mark{m}, emit.Record(p, i > 0)
		t.code.Touches = append(t.code.Touches, touch)
		n++
	}
	return n
}

// Recorded reports whether accesses of an operand are recorded.
func Recorded(p *x86.Operand) bool {
	return p.Plain() && int(p.Size)*int(p.Count) < emit.RecordMost && p.Disp <= emit.MostDisplacement && p.Disp >= -1<<31
}

// recorded is a record in front of an instruction.
type recorded struct {
	touch *emit.Touch
	inst  int32
	begin x86.Label
	emit.TouchUse
}

// record writes what is in front of an instruction, and keeps the rest for coldRecords.
func (w *Writer) record(t *emit.Touch, inst int32) {
	r := recorded{touch: t, inst: inst, begin: w.asm.NewLabel(), TouchUse: emit.TouchUse{Word: w.counter.Saved, Fix: w.fixAt, Cold: w.asm.NewLabel(), Back: w.asm.NewLabel()}}
	w.asm.Bind(r.begin)
	t.Write(w.asm, &r.TouchUse)
	w.recorded = append(w.recorded, r)
}

// coldRecords writes the rest of the records.
func (w *Writer) coldRecords() {
	for i := range w.recorded {
		r := &w.recorded[i]
		in := &w.code.Home.Graph.Insts[r.inst]
		w.runs.ColdTouch(w.asm, w.shown(r.inst), r.touch)
		start := w.asm.Len()
		r.touch.WriteCold(w.asm, &r.TouchUse, r.begin, w.obj.Run(in.Addr), w.counter.Common.Add(emit.CommonRecord))
		w.runs.Noted(w.asm.Len() - start)
	}
}
