package translate

import (
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
)

// Accesses that are recorded, if they are to a region. A unit has two copies for that. In one,
// slow, each operand in memory has a check of its own in front of its instruction, by its first
// byte, and nothing is left out. In the other, which all come to, there are guards in place of most
// of these (guards.go).

// RecordAccesses puts a record in front of each access that can have one (Touching.Recorded), in
// the slow copy, and guards into c. It comes behind Count or CountAs, and NoteCallees, in place of
// NoteTouches.
func (c *Code) RecordAccesses(o *stubgen.Object, how Touching) {
	slow := *c
	c.Slow, slow.Detours = &slow, slices.Clone(c.Detours)
	how.Granule = emit.GranulePage
	a := c.ask(o, &how)
	slow.recordAll(o, how, a)
	c.guard(o, how, a)
}

// recordAll puts a record in front of each access.
func (c *Code) recordAll(o *stubgen.Object, how Touching, a *asked) {
	g := c.Home.Graph
	t := toucher{asked: a, code: c, obj: o, how: how, compares: true}
	ops, begins := make([]Op, 0, 2*len(c.Ops)), make([]int32, 0, len(g.Blocks))
	c.Touches, t.marks = make([]emit.Touch, 0, len(g.Insts)/2), make([]emit.Mark, 0, len(g.Insts)/2)
	for k := range g.Blocks {
		begins = append(begins, int32(len(ops)))
		for i, op := range c.ops(k) {
			if t.isFirst(c.ops(k), i) {
				ops = t.putRecords(t.putForms(ops, op.Inst), op.Inst, nil)
			}
			ops = append(ops, op)
		}
	}
	c.Ops, c.Begins = ops, begins
}

// putRecords adds those of an instruction, of which they are wanted; nil: of all operands.
func (t *toucher) putRecords(ops []Op, inst int32, wanted func() bool) []Op {
	for n := t.records(inst, wanted); n > 0; n-- {
		ops = append(ops, Op{Kind: Touch, Inst: inst, To: int32(len(t.code.Touches)) - n})
	}
	return ops
}

// records adds the records of an instruction that are wanted, and says how many there are.
func (t *toucher) records(inst int32, wanted func() bool) (n int32) {
	if t.forms[inst] != nil {
		return 0
	}
	in := &t.code.Home.Graph.Insts[inst]
	var all [x86.MaxOperands]x86.Operand
	operands := all[:in.Operands(t.obj.Code(in.Addr)[:in.Len], &all)]
	for i := range operands {
		p := &operands[i]
		if !t.how.isRecorded(p) || wanted != nil && !wanted() {
			continue
		}
		touch, _ := t.touchAt(inst)
		m := emit.Mark{Memory: classOf(p), Kind: p.Kind & (x86.OperandLoad | x86.OperandStore)}
		if m.Memory.Disp = int32(p.Disp); p.Base == x86.RIP {
			m.Memory, m.At = x86.Memory{}, t.obj.Run(uint64(p.Disp+int64(in.End())))
		}
		t.marks = append(t.marks, m)
		touch.Marks, touch.Record = t.marks[len(t.marks)-1:len(t.marks):len(t.marks)], emit.Record(p, i > 0)
		t.code.Touches = append(t.code.Touches, touch)
		n++
	}
	return n
}

// isRecorded reports whether it is an access, and has a record.
func (how *Touching) isRecorded(p *x86.Operand) bool {
	return p.Kind&(x86.OperandLoad|x86.OperandStore) != 0 && how.Recorded(p)
}

// Recorded reports whether accesses of an operand are recorded.
func (how *Touching) Recorded(p *x86.Operand) bool {
	return how.notes(p) && int(p.Size)*int(p.Count) < emit.RecordMost && p.Disp <= emit.MostDisplacement && p.Disp >= -1<<31
}

// cold is a record in front of an instruction, or a touch that looks, of which the rest is elsewhere.
type cold struct {
	touch *emit.Touch
	inst  int32
	begin x86.Label
	emit.TouchUse
}

// withCold writes what is in front of an instruction, and keeps the rest for colds.
func (w *Writer) withCold(t *emit.Touch, inst int32) {
	r := cold{touch: t, inst: inst, begin: w.asm.NewLabel(), TouchUse: emit.TouchUse{Word: w.counter.Saved, Mask: w.mask, Fix: w.fixer, By: &w.by, Cold: w.asm.NewLabel(), Back: w.asm.NewLabel()}}
	w.asm.Bind(r.begin)
	t.Write(w.asm, &r.TouchUse)
	w.cold = append(w.cold, r)
}

// colds writes the rest of records, and of touches that look.
func (w *Writer) colds() {
	for i := range w.cold {
		r := &w.cold[i]
		in := &w.code.Home.Graph.Insts[r.inst]
		w.runs.ColdTouch(w.asm, w.shown(r.inst), r.touch)
		start := w.asm.Len()
		w.by.Inst = r.inst
		if r.touch.Looks {
			r.touch.WriteColdTouch(w.asm, &r.TouchUse, r.begin)
		} else {
			r.touch.WriteCold(w.asm, &r.TouchUse, r.begin, w.obj.Run(in.Addr), w.counter.Common.Add(emit.CommonRecord))
		}
		w.runs.Noted(w.asm.Len() - start)
	}
}
