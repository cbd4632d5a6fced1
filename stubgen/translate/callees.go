package translate

import (
	"slices"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/flow"
)

// NoteCallees puts a note (emit.Note) in front of each call by a pointer, and of each jump by
// one that leaves the unit, and returns how many there are. It comes behind Count or CountAs.
// The words of the first have the numbers from first on, behind the counters. Of those by a
// word that the dynamic linker fills in, and closes, the callee is known by that.
func (c *Code) NoteCallees(o *stubgen.Object, first int32) (notes int) {
	g := c.Home.Graph
	var at []int // in Ops
	for k := range g.Blocks {
		if op := int(c.Begins[k]) + len(c.ops(k)) - 1; c.calleeNoted(o, &g.Blocks[k], &c.Ops[op]) {
			at = append(at, op)
		}
	}
	if len(at) == 0 {
		return 0
	}
	ops, begins := make([]Op, 0, len(c.Ops)+len(at)), make([]int32, 0, len(g.Blocks))
	for k := range g.Blocks {
		old := c.ops(k)
		begins = append(begins, int32(len(ops)))
		if last := len(old) - 1; notes < len(at) && at[notes] == int(c.Begins[k])+last {
			ops = append(append(ops, old[:last]...), Op{Kind: Note, Inst: old[last].Inst, To: first + emit.NoteWords*int32(notes)})
			old, notes = old[last:], notes+1
		}
		ops = append(ops, old...)
	}
	c.Ops, c.Begins = ops, begins
	return notes
}

// NoteOf is the number of the note of the callee of a block's last instruction, or NoCounter.
func (c *Code) NoteOf(block int) int32 {
	ops := c.ops(block)
	if n := len(ops) - 2; n >= 0 && ops[n].Kind == Note {
		return ops[n].To
	}
	return NoCounter
}

// calleeNoted reports whether a block, whose last operation is op, has a note.
func (c *Code) calleeNoted(o *stubgen.Object, b *flow.Block, op *Op) bool {
	in := &c.Home.Graph.Insts[op.Inst]
	switch {
	case op.Inst != b.End-1:
		return false
	case in.Kind == x86.CallInd:
	case in.Kind == x86.JmpInd && b.Leaves&flow.ByIndirect != 0 && !slices.ContainsFunc(b.Succs, func(e flow.Edge) bool { return e.Kind == flow.Switch }):
	default:
		return false
	}
	code := o.Code(in.Addr)[:in.Len]
	if in.RIPRel() {
		slot := in.RIPTarget(code, in.Addr)
		if slices.ContainsFunc(o.Closed, func(r elfscan.Range) bool { return slot >= r.Low && slot < r.High }) {
			return false
		}
	}
	_, ok := emit.PointerOf(o, &in.Inst, code, in.Addr)
	return ok
}

// note writes what is in front of a call, or a jump, and keeps the rest for coldNotes.
func (w *Writer) note(op Op) {
	in := &w.code.Home.Graph.Insts[op.Inst]
	p, _ := emit.PointerOf(w.obj, &in.Inst, w.obj.Code(in.Addr)[:in.Len], in.Addr)
	n := noted{Note: emit.Note{Word: w.counter.Row + 8*op.To, Pointer: p}, from: in.Addr}
	w.runs.BeginNote(w.asm, in.Addr, &n.Note)
	n.begin, n.cold, n.back = w.asm.NewLabel(), w.asm.NewLabel(), w.asm.NewLabel()
	w.asm.Bind(n.begin)
	n.Write(w.asm, n.cold, w.fixAt)
	w.asm.Bind(n.back)
	w.notes = append(w.notes, n)
}

// noted is a note that is written in front of its call.
type noted struct {
	emit.Note
	from              uint64 // link-time address of the call
	begin, cold, back x86.Label
}

// coldNotes writes the rest of the notes.
func (w *Writer) coldNotes() {
	for i := range w.notes {
		n := &w.notes[i]
		w.runs.ColdNote(w.asm, n.from, &n.Note)
		start := w.asm.Len()
		n.WriteCold(w.asm, &w.counter.Notes, n.begin, n.cold, n.back, w.fixAt)
		w.runs.Noted(w.asm.Len() - start)
	}
}

// fixAt notes the word at an offset, which is the displacement of a counter.
func (w *Writer) fixAt(at int) { w.Fixes = append(w.Fixes, Fix{At: int32(at)}) }
