package translate

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
)

// Patch is bytes that an old body gets, at a link-time address.
type Patch struct {
	Addr uint64
	Code []byte
	From uint64 // of an island, what leads to it; else 0
}

// Counter says what one more for a counter is.
type Counter struct {
	Shared x86.RunAddr // unless 0, where the counters of all threads are
	Row    int32       // else the displacement of the first from the GS base
}

// Size is the most bytes that the copy takes, behind its function's count.
func (c *Code) Size(o *stubgen.Object, shared bool) int {
	n := 0
	for _, op := range c.Ops {
		in := &c.Home.Graph.Insts[op.Inst]
		switch op.Kind {
		case Count:
			n += emit.RunCountSize(op.Keep, shared)
		case Stay, Follow:
			n += jumpSize
		default:
			n += emit.MovedSize(o, &in.Inst, in.Addr)
		}
	}
	if c.Laps {
		n += emit.RunCountSize(c.Keep, shared) + jumpSize
	}
	return n
}

// Writer writes a copy behind its function's count: it is an emit.Copy.
type Writer struct {
	Patches []Patch // of the old body, by no order, when it is written

	code    *Code
	obj     *stubgen.Object
	counter Counter
	asm     *x86.Asm
	mover   *emit.Mover
	runs    *emit.Runs
	labels  []x86.Label // by block
	entry   x86.Label   // behind the count
}

// NewWriter writes the copy of a unit of o.
func NewWriter(c *Code, o *stubgen.Object, counter Counter) *Writer {
	return &Writer{code: c, obj: o, counter: counter}
}

// WriteCopy implements emit.Copy. The block of the entry comes first, then those behind
// it, and those in front of it.
func (w *Writer) WriteCopy(a *x86.Asm, runs *emit.Runs) {
	g := w.code.Home.Graph
	w.asm, w.runs, w.mover = a, runs, emit.NewMover(a, w.obj)
	w.labels = make([]x86.Label, len(g.Blocks))
	for k := range w.labels {
		w.labels[k] = a.NewLabel()
	}
	w.entry = a.NewLabel()
	for i := range g.Blocks {
		w.block((g.Entry + i) % len(g.Blocks))
	}
	if w.code.Laps {
		w.lap()
	}
	w.mover.Finish()
	w.lead()
}

func (w *Writer) block(k int) {
	g, ops := w.code.Home.Graph, w.code.ops(k)
	if k == g.Entry {
		w.asm.Bind(w.entry)
	} else {
		w.asm.Bind(w.labels[k])
	}
	switch {
	case k != g.Entry:
		if ops[0].Kind != Count {
			w.runs.Begin(w.asm, g.Addr(&g.Blocks[k]), 0, false)
		}
	case g.Insts[ops[0].Inst].Kind == x86.Endbr:
		ops = ops[1:] // it stays where it is
	}
	for i, op := range ops {
		if op.Kind == Count {
			w.count(op.To, op.Keep, g.Insts[ops[i+1].Inst].Addr)
		} else {
			w.op(op)
		}
	}
}

// lap writes where jumps of the unit to its own entry lead:
//
//	lap:    inc   qword gs:[counter]
//	        jmp   entry                ; behind the count
func (w *Writer) lap() {
	w.asm.Bind(w.labels[w.code.Home.Graph.Entry])
	w.count(int32(w.code.Home.Graph.Entry), w.code.Keep, WindowEnd(w.code.Home.Graph)-jumpSize)
	w.asm.Jmp(w.entry)
	w.runs.Left()
}

// count writes one more for a counter, in front of the copy of what stands at from.
func (w *Writer) count(number int32, keep bool, from uint64) {
	w.runs.Begin(w.asm, from, emit.CountSize(keep, false, w.counter.Shared != 0), keep)
	one := func() {
		if w.counter.Shared != 0 {
			w.asm.LockIncTo(w.counter.Shared.Add(8 * int(number)))
		} else {
			w.asm.IncGS(w.counter.Row + 8*number)
		}
	}
	if keep {
		emit.KeepFlags(w.asm, one)
	} else {
		one()
	}
}

func (w *Writer) op(op Op) {
	in := &w.code.Home.Graph.Insts[op.Inst]
	code, a, start := w.obj.Code(in.Addr)[:in.Len], w.asm, w.asm.Len()
	switch op.Kind {
	case Same, Push:
		w.mover.Same(&in.Inst, code, in.Addr)
	case Branch:
		w.mover.Branch(&in.Inst, code, w.labels[op.To])
	case Leave:
		w.mover.Leave(&in.Inst, code, w.obj.Run(in.To))
	case Follow:
		a.JmpTo(w.obj.Run(in.End()))
		w.runs.Left()
		return
	case Stay:
		a.JmpTo(w.obj.Run(in.Addr))
		w.runs.Led(&in.Inst)
		return
	}
	w.runs.Moved(&in.Inst, a.Len()-start)
}

// lead makes the patches: jumps to the copies of what landings are in front of, and
// short ones to islands.
func (w *Writer) lead() {
	g := w.code.Home.Graph
	for _, l := range w.code.Home.Landings {
		at, copied := g.Insts[l.Inst].Addr, w.asm.Place(w.labels[g.BlockOf(l.Inst)])
		if l.Island != 0 {
			const opShort = 0xeb
			w.Patches = append(w.Patches, Patch{Addr: at, Code: []byte{opShort, byte(l.Island - at - shortSize)}})
		}
		p := Patch{Addr: at, Code: make([]byte, jumpSize)}
		if l.Island != 0 {
			p.Addr, p.From = l.Island, at
		}
		var jump x86.Asm
		jump.Reset(p.Code, w.obj.Run(p.Addr))
		jump.JmpTo(copied)
		if err := jump.Finish(); err != nil {
			panic("BUG: " + err.Error()) // the stub is in reach of all of its object
		}
		w.Patches = append(w.Patches, p)
	}
}
