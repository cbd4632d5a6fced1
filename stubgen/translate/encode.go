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
	Notes  emit.Notes  // of callees, if there are any
	Number int32       // displacement of the row's number, if trips are counted
	Saved  int32       // of the word that a Touch saves its register in
	Common x86.RunAddr // where the arena is, with its common jumps, if accesses are recorded
	Codes  Codes       // if it is told which instruction touches memory
}

// Codes are the numbers of an object's instructions: those of its addresses from one on.
type Codes struct {
	First uint32
	Low   uint64 // link-time address
}

// MostCodes is how many an object has at most: what lies beyond has the last.
const MostCodes = 1 << 31

// Of is the number of an instruction.
func (c *Codes) Of(addr uint64) uint32 { return c.First + uint32(min(addr-c.Low, MostCodes-1)) }

// Size is the most bytes that the copy takes, behind its function's count.
func (c *Code) Size(o *stubgen.Object, shared bool) int {
	size := c.layOut(o, shared, false)
	if c.Slow != nil {
		size += c.Slow.layOut(o, shared, false)
	}
	return size
}

const maskSize = 8

// Fix is a word of a copy that depends on the process.
type Fix struct {
	At   int32 // from the stub's start
	Kind FixKind
}

// FixKind is what such a word is.
type FixKind uint8

// The kinds that there are.
const (
	FixCounter FixKind = iota // displacement of a counter, of 32 bits
	FixAddress                // run address of 64 bits
	FixCode                   // number of an instruction, of 32 bits
)

// Writer writes a copy behind its function's count: it is an emit.Copy.
type Writer struct {
	Patches []Patch // of the old body, by no order, when it is written
	Fixes   []Fix   // of the copy, as well; not of counters that are Shared

	code    *Code
	obj     *stubgen.Object
	counter Counter
	asm     *x86.Asm
	mover   *emit.Mover
	runs    *emit.Runs
	labels  []x86.Label // by block; the entry's is behind the function's count
	detours []x86.Label
	ahead   []int32 // by block: number + 1 of the detour in front of it
	reads   []reading
	notes   []noted
	ends    []tripEnd
	cold    []cold
	use     emit.TouchUse // of what has nothing elsewhere
	fixer   func(at int)  // fixAt
	by      emit.By
	guarded []guarded
	mask    x86.Label           // if a Touch needs it
	slow    *Writer             // of the copy that guards lead to, if there is one,
	fast    *Writer             // and there of the other
	entries map[int32]x86.Label // by instruction: where a guard leads

	behindCount bool        // the entry's block follows the function's count, whose run it is in
	begin       x86.Label   // where it begins
	inFront     func(k int) // is called where only jumps from outside come to block k
}

// NewWriter writes the copy of a unit of o.
func NewWriter(c *Code, o *stubgen.Object, counter Counter) *Writer {
	c.layOut(o, counter.Shared != 0, false)
	w := &Writer{code: c, obj: o, counter: counter}
	w.fixer = w.fixAt
	w.by.Number = func(inst int32) uint32 { return w.counter.Codes.Of(c.Home.Graph.Insts[inst].Addr) }
	w.by.Fix = func(at int) { w.Fixes = append(w.Fixes, Fix{int32(at), FixCode}) }
	if c.Slow != nil {
		w.slow = NewWriter(c.Slow, o, counter)
		w.slow.fast, w.slow.entries = w, map[int32]x86.Label{}
	}
	return w
}

// WriteCopy implements emit.Copy.
func (w *Writer) WriteCopy(a *x86.Asm, runs *emit.Runs) {
	w.behindCount = true
	w.write(a, runs)
	w.writeSlow(a, runs)
	w.lead(func(inst int32) x86.RunAddr { return a.Place(w.landing(w.code.Home.Graph.BlockOf(inst))) })
}

// writeSlow writes the copy that guards lead to, behind the other, if there is one.
func (w *Writer) writeSlow(a *x86.Asm, runs *emit.Runs) {
	if w.slow != nil {
		w.slow.write(a, runs)
		w.Fixes = append(w.Fixes, w.slow.Fixes...)
	}
}

// write writes the copy and its tables. The block of the entry comes first, then those behind
// it, and those in front of it.
func (w *Writer) write(a *x86.Asm, runs *emit.Runs) {
	g := w.code.Home.Graph
	w.asm, w.runs, w.mover = a, runs, emit.NewMover(a, w.obj)
	if w.slow != nil {
		w.slow.asm = a
	}
	w.labels, w.detours = newLabels(a, len(g.Blocks)), newLabels(a, len(w.code.Detours))
	w.ahead = w.code.aheadOf()
	w.begin, w.mask = a.NewLabel(), a.NewLabel()
	if a.Bind(w.begin); w.code.Start != NoCounter {
		w.startTrip(w.code.Start, g.Blocks[g.Entry].First)
	}
	for i := range g.Blocks {
		w.block((g.Entry + i) % len(g.Blocks))
	}
	if w.code.goesRound() {
		w.jump(w.labels[g.Entry], w.code.RoundShort)
	}
	for i := range w.code.Detours {
		if d := &w.code.Detours[i]; !d.Ahead {
			w.detour(i)
			w.jump(w.target(d.To, 0), d.Short)
		}
	}
	w.coldNotes()
	w.coldEnds()
	w.colds()
	w.coldGuards()
	for _, at := range w.mover.Finish() {
		w.Fixes = append(w.Fixes, Fix{int32(at), FixAddress})
	}
	w.writeTables()
	if w.code.usesMask() {
		a.Align(maskSize)
		a.Bind(w.mask)
		w.code.Touches[0].WriteMask(a)
	}
}

// target is where a jump to a block leads, or to a detour.
func (w *Writer) target(to, via int32) x86.Label {
	switch {
	case w.code.goesFast(to, via):
		return w.fast.labels[to]
	case via != 0:
		return w.detours[via-1]
	}
	return w.labels[to]
}

// jump writes a jump that stands for no instruction.
func (w *Writer) jump(to x86.Label, short bool) {
	start := w.asm.Len()
	if short {
		w.asm.JmpShort(to)
	} else {
		w.asm.Jmp(to)
	}
	w.runs.Left(w.asm.Len() - start)
}

func newLabels(a *x86.Asm, n int) []x86.Label {
	labels := make([]x86.Label, n)
	for i := range labels {
		labels[i] = a.NewLabel()
	}
	return labels
}

func (w *Writer) block(k int) {
	g, ops := w.code.Home.Graph, w.code.ops(k)
	if d := w.ahead[k]; d != 0 {
		w.detour(int(d - 1))
	} else if before := (k + len(g.Blocks) - 1) % len(g.Blocks); w.inFront != nil && w.code.Lands[k] == 0 && k != g.Entry && !w.code.Falls[before] {
		w.inFront(k)
	}
	w.asm.Bind(w.labels[k])
	if !ops[0].Kind.isRun() && (k != g.Entry || w.code.Start != NoCounter || !w.behindCount) {
		w.runs.Begin(w.asm, w.shown(ops[0].Inst), 0, false)
	}
	for i, op := range ops {
		w.bindEntry(op)
		switch {
		case op.Kind.isTrip():
			w.trip(op)
			if i+1 < len(ops) && !ops[i+1].Kind.isRun() {
				w.runs.Begin(w.asm, w.shown(ops[i+1].Inst), 0, false)
			}
		case op.Kind == Note:
			w.note(op)
		case op.Kind == Touch:
			w.touch(op, ownsRun(ops, i+1))
		case op.Kind == Count && (op.Way || ownsRun(ops, i+1)): // the instruction has a run of its own
			w.countWay(op.To, op.Keep, op.Inst)
		case op.Kind == Count:
			w.runs.Begin(w.asm, w.shown(op.Inst), w.countSize(op.Keep), op.Keep)
			w.count(op.To, op.Keep)
		case !w.isMark(op.Inst):
			w.op(op)
		}
	}
}

// ownsRun reports whether operation i has a run of its own, with the instruction behind it.
func ownsRun(ops []Op, i int) bool {
	return i < len(ops) && (ops[i].Kind == Note || ops[i].Kind == Touch)
}

// isMark reports whether an instruction is the endbr64 of the entry, which stays where it is.
func (w *Writer) isMark(inst int32) bool {
	in := &w.code.Home.Graph.Insts[inst]
	return in.Kind == x86.Endbr && in.Addr == w.code.Home.Graph.Unit.Entry()
}

// shown is the address that a count in front of an instruction is shown as.
func (w *Writer) shown(inst int32) uint64 {
	in := &w.code.Home.Graph.Insts[inst]
	if w.isMark(inst) {
		return in.End() // where the stub begins
	}
	return in.Addr
}

// detour writes what one does. A thread that goes on at the block, and not here, shall not have
// counted a way on which nothing has started.
func (w *Writer) detour(i int) {
	d := &w.code.Detours[i]
	to := w.code.Home.Graph.Blocks[d.To].First
	if w.inFront != nil && int(w.code.Lands[d.To]) == i+1 {
		w.inFront(int(d.To))
	}
	w.asm.Bind(w.detours[i])
	if d.Start != NoCounter {
		w.startTrip(d.Start, to)
	}
	if d.Counter != NoCounter {
		w.countWay(d.Counter, d.Keep, to)
	}
}

// countWay writes the count of a way to where an instruction is.
func (w *Writer) countWay(number int32, keep bool, inst int32) {
	w.runs.BeginWay(w.asm, w.shown(inst), w.countSize(keep), keep)
	w.count(number, keep)
}

func (w *Writer) countSize(keep bool) int {
	return emit.CountSize(keep, false, w.counter.Shared != 0)
}

// count writes one more for a counter.
func (w *Writer) count(number int32, keep bool) {
	one := func() {
		if w.counter.Shared != 0 {
			w.asm.LockIncTo(w.counter.Shared.Add(8 * int(number)))
		} else {
			w.asm.IncGS(w.counter.Row + 8*number)
			w.fix(4, FixCounter)
		}
	}
	if keep {
		emit.KeepFlags(w.asm, one)
	} else {
		one()
	}
}

// fix notes the last size bytes.
func (w *Writer) fix(size int, kind FixKind) {
	w.Fixes = append(w.Fixes, Fix{int32(w.asm.Len() - size), kind})
}

func (w *Writer) op(op Op) {
	in := &w.code.Home.Graph.Insts[op.Inst]
	code, a, start := w.obj.Code(in.Addr)[:in.Len], w.asm, w.asm.Len()
	switch op.Kind {
	case Same, Push:
		if !w.read(op.Inst, code) {
			w.mover.Same(&in.Inst, code, in.Addr)
		}
	case Branch:
		w.mover.Branch(&in.Inst, code, w.target(op.To, op.Via), op.Short)
	case Leave:
		w.mover.Leave(&in.Inst, code, w.obj.Run(in.To))
	case Follow:
		a.JmpTo(w.obj.Run(in.End()))
		w.runs.Left(jumpSize)
		return
	case Stay:
		a.JmpTo(w.obj.Run(in.Addr))
		w.runs.Led(&in.Inst)
		return
	}
	w.runs.Moved(&in.Inst, a.Len()-start)
	if w.isAimed(op.Inst) {
		w.runs.Aimed()
	}
}

// lead makes the patches: jumps to where that says the copies of what landings are in front
// of are, and short ones to islands.
func (w *Writer) lead(copyOf func(inst int32) x86.RunAddr) {
	g := w.code.Home.Graph
	for _, l := range w.code.Home.Landings {
		at, copied := g.Insts[l.Inst].Addr, copyOf(l.Inst)
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
