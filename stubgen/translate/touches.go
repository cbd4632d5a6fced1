package translate

import (
	"encoding/binary"
	"math/bits"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/flow"
)

// Pages that memory is read and written in. Accesses of a block by the same registers, which
// nothing changes in between, are a span, noted by its first and its last byte, if all lie in
// less than a page: the pages of both are all that there are. What is read and what is written
// are apart, as both ends shall be of the same kind. Spans whose addresses are known at one
// place are one Touch there, in front of the first access of them: best where a register is
// dead, and no flag is live.

// touchChange are the flags that a Touch changes and somebody may mean to read: not AF.
const touchChange = x86.FlagsAll &^ x86.FlagAF

// mostTouched is how many bytes a span has.
const mostTouched = 4096

// Touching is how pages are noted.
type Touching struct {
	Row   bool // threads have rows, with a word for this
	Masks bool // by pext: the CPU is fast with it
}

// NoteTouches puts a Touch in front of accesses. It comes behind Count or CountAs, and
// NoteCallees. Nearly all returns have one: so what a function leaves in flags stays, though few
// mean to leave any.
func (c *Code) NoteTouches(o *stubgen.Object, how Touching) {
	g := c.Home.Graph
	t := toucher{code: c, obj: o, how: how, live: g.FlagsForCallers()}
	if how.Row {
		t.dead = g.DeadRegisters(func(in *flow.Inst) []byte { return o.Code(in.Addr)[:in.Len] })
	}
	ops, begins := make([]Op, 0, 3*len(c.Ops)/2), make([]int32, 0, len(g.Blocks))
	for k := range g.Blocks {
		begins = append(begins, int32(len(ops)))
		t.block(c.ops(k))
		for i, op := range c.ops(k) {
			if t.isFirst(c.ops(k), i) {
				ops = t.put(ops, op.Inst)
			}
			ops = append(ops, op)
		}
	}
	c.Ops, c.Begins = ops, begins
}

// put adds the touches of the block that are in front of an instruction.
func (t *toucher) put(ops []Op, inst int32) []Op {
	for n := t.first; n < len(t.at); n++ {
		if t.at[n] == inst {
			ops = append(ops, Op{Kind: Touch, Inst: inst, To: int32(n)})
		}
	}
	return ops
}

// toucher finds the touches.
type toucher struct {
	code  *Code
	obj   *stubgen.Object
	how   Touching
	live  []x86.FlagSet
	dead  []uint32
	at    []int32          // by Code.Touches: the instruction that it is in front of
	first int              // number of the block's first
	marks []emit.Mark      // of all touches
	insts []int32          // of a block, those that run, here or at home
	rsps  []int32          // in front of each: how far the stack pointer is from where it was first
	since [x86.RIP + 1]int // by register: the first of these that what it has now is there in front of
	spans []touched
	open  []int // spans that more may come to
	rsp   int32
}

// touched is a span.
type touched struct {
	class    x86.Memory // without its displacement; by RIP, with that of link-time addresses
	from, to int64      // displacements, from where the stack pointer was first for those by it; to is excluded
	kind     x86.OperandKind
	since    int // the first of the block's instructions that it can be noted in front of
	last     int // and the last: that of its first access
	noted    bool
}

// runsHere reports whether an operation is an instruction, here or at home.
func (k OpKind) runsHere() bool { return k <= Push && k != Follow }

// isFirst reports whether operation i is the instruction, or the note in front of it.
func (t *toucher) isFirst(ops []Op, i int) bool {
	if ops[i].Kind == Note {
		return true
	}
	return ops[i].Kind.runsHere() && (i == 0 || ops[i-1].Kind != Note)
}

func (t *toucher) block(ops []Op) {
	t.first, t.insts, t.rsps, t.spans, t.open, t.rsp = len(t.at), t.insts[:0], t.rsps[:0], t.spans[:0], t.open[:0], 0
	t.since = [len(t.since)]int{}
	for _, op := range ops {
		if op.Kind.runsHere() {
			t.insts, t.rsps = append(t.insts, op.Inst), append(t.rsps, t.rsp)
			t.instruction(op.Inst)
		}
	}
	t.place()
}

func (t *toucher) instruction(inst int32) {
	in := &t.code.Home.Graph.Insts[inst]
	code := t.obj.Code(in.Addr)[:in.Len]
	var all [x86.MaxOperands]x86.Operand
	operands := all[:in.Operands(code, &all)]
	for i := range operands {
		t.touch(in, &operands[i])
	}
	t.leave(in, code, operands)
}

// touch adds an operand.
func (t *toucher) touch(in *flow.Inst, p *x86.Operand) {
	n := int64(p.Size) * int64(p.Count)
	if !p.Plain() || n > mostTouched || p.Disp > emit.MostDisplacement || p.Disp < -1<<31 {
		return
	}
	class, from := x86.Memory{Base: p.Base, Index: p.Index, Scale: p.Scale}, p.Disp
	switch p.Base {
	case x86.RIP:
		from += int64(in.End())
	case x86.RSP:
		from += int64(t.rsp)
	}
	for _, kind := range []x86.OperandKind{x86.OperandLoad, x86.OperandStore} {
		if p.Kind&kind != 0 {
			t.access(class, kind, from, from+n)
		}
	}
}

// access adds bytes to a span, or begins one.
func (t *toucher) access(class x86.Memory, kind x86.OperandKind, from, to int64) {
	for _, k := range t.open {
		s := &t.spans[k]
		if low, high := min(s.from, from), max(s.to, to); s.class == class && s.kind == kind && high-low <= mostTouched && t.inReach(s, low) && t.inReach(s, high) {
			s.from, s.to = low, high
			return
		}
	}
	s := touched{class: class, from: from, to: to, kind: kind, last: len(t.insts) - 1}
	if !t.inReach(&s, from) {
		s.since = s.last
	}
	for _, r := range []byte{class.Base, class.Index} {
		if r != x86.NoRegister {
			s.since = max(s.since, t.since[r])
		}
	}
	t.open = append(t.open, len(t.spans))
	t.spans = append(t.spans, s)
}

// inReach reports whether a byte is in reach of a displacement wherever the span may be noted.
func (t *toucher) inReach(s *touched, at int64) bool {
	const room = 1 << 24 // that the stack pointer moves in a block
	return s.class.Base == x86.RIP || at > -1<<31+room && at < emit.MostDisplacement-room
}

// leave has spans end whose registers an instruction writes.
func (t *toucher) leave(in *flow.Inst, code []byte, operands []x86.Operand) {
	written := in.Effects(code).Written.G
	by, known := movesStack(in, code, operands)
	if t.rsp += by; !known {
		written |= 1 << x86.RSP
	}
	for r := range byte(x86.RIP) {
		if written>>r&1 != 0 {
			t.since[r] = len(t.insts)
		}
	}
	keep := t.open[:0]
	for _, k := range t.open {
		if m := &t.spans[k].class; !isIn(written, m.Base) && !isIn(written, m.Index) {
			keep = append(keep, k)
		}
	}
	t.open = keep
}

func isIn(set uint32, register byte) bool { return register < x86.RIP && set>>register&1 != 0 }

// usesMask reports whether a Touch needs a mask in memory.
func (c *Code) usesMask() bool { return len(c.Touches) > 0 && c.Touches[0].Masks }

// place makes touches of a block's spans.
func (t *toucher) place() {
	var marks [8]emit.Mark
	for i := range t.spans {
		if t.spans[i].noted {
			continue
		}
		at, touch := t.best(t.spans[i].since, t.spans[i].last)
		touch.Marks = marks[:0]
		for k := i; k < len(t.spans); k++ {
			if s := &t.spans[k]; !s.noted && s.since <= at && t.mark(&touch, s, at) {
				s.noted = true
			}
		}
		begin := len(t.marks)
		t.marks = append(t.marks, touch.Marks...)
		touch.Marks = t.marks[begin:len(t.marks):len(t.marks)]
		t.at = append(t.at, t.insts[at])
		t.code.Touches = append(t.code.Touches, touch)
	}
}

// best is where a touch is best, of the instructions from first to last: late, so that more
// spans are known.
func (t *toucher) best(first, last int) (at int, best emit.Touch) {
	least := -1
	for i := last; i >= first && least != 0; i-- {
		touch, cost := t.touchAt(t.insts[i])
		if least < 0 || cost < least {
			at, best, least = i, touch, cost
		}
	}
	return at, best
}

// touchAt is a Touch in front of an instruction, without marks, and what it costs: instructions,
// by guess.
func (t *toucher) touchAt(inst int32) (touch emit.Touch, cost int) {
	const onStack, keeps = 4, 8
	touch = emit.Touch{Scratch: x86.NoRegister, Masks: t.how.Masks}
	touch.KeepsFlags = !t.how.Masks && t.live[inst]&touchChange != 0
	if touch.KeepsFlags {
		return touch, keeps
	}
	if t.how.Row {
		if free := t.dead[inst] &^ (1 << x86.R8); free != 0 { // which the signal entry has no word for
			touch.Scratch = byte(bits.TrailingZeros32(free))
			return touch, 0
		}
	}
	return touch, onStack
}

// mark adds the ends of a span to a Touch in front of an instruction of the block. It reports
// false if there is no room.
func (t *toucher) mark(touch *emit.Touch, s *touched, at int) bool {
	old := len(touch.Marks)
	for _, b := range []int64{s.from, s.to - 1} {
		m := emit.Mark{Memory: s.class, Kind: s.kind}
		switch s.class.Base {
		case x86.RIP:
			m.Memory, m.At = x86.Memory{}, t.obj.Run(uint64(b))
		case x86.RSP:
			m.Memory.Disp = int32(b - int64(t.rsps[at]))
		default:
			m.Memory.Disp = int32(b)
		}
		if !addMark(touch, &m) {
			touch.Marks = touch.Marks[:old]
			return false
		}
	}
	return true
}

// addMark adds a mark, or adds its kind to one that is there.
func addMark(touch *emit.Touch, m *emit.Mark) bool {
	for i := range touch.Marks {
		if k := &touch.Marks[i]; k.Memory == m.Memory && k.At == m.At {
			k.Kind |= m.Kind
			return true
		}
	}
	if !touch.HasRoom(m) {
		return false
	}
	touch.Marks = append(touch.Marks, *m)
	return true
}

// movesStack is by how much an instruction moves the stack pointer, if that is known.
func movesStack(in *flow.Inst, code []byte, operands []x86.Operand) (by int32, known bool) {
	const (
		opAdd8, opAdd32 = 0x83, 0x81 // group 1
		add, sub        = 0, 5
		pushes          = 0x50 // to 0x57
		pops            = 0x58
		enter, leave    = 0xc8, 0xc9
	)
	legacy := in.Enc == x86.EncLegacy && in.Map == x86.MapLegacy
	rm, isReg := in.RM()
	switch {
	case legacy && (in.Op == enter || in.Op == leave):
		return 0, false
	case legacy && in.Op&^7 == pushes && len(operands) == 1:
		return -int32(operands[0].Size), true
	case legacy && in.Op&^7 == pops && len(operands) == 1 && in.Op&7|in.Rex&x86.RexB<<3 != x86.RSP:
		return int32(operands[0].Size), true
	case legacy && (in.Op == opAdd8 || in.Op == opAdd32) && isReg && rm == x86.RSP && in.Rex&x86.RexW != 0 && (in.ModRM>>3&7 == add || in.ModRM>>3&7 == sub):
		by = int32(int8(code[len(code)-1]))
		if in.Op == opAdd32 {
			by = int32(binary.LittleEndian.Uint32(code[len(code)-4:]))
		}
		if in.ModRM>>3&7 == sub {
			by = -by
		}
		return by, by > -1<<20 && by < 1<<20
	}
	for i := range operands {
		if operands[i].Base == x86.RSP && operands[i].Flags&x86.OperandImplicit != 0 {
			return 0, false
		}
	}
	// What may name it as a register.
	if in.HasModRM && (in.Reg() == x86.RSP || isReg && rm == x86.RSP) || legacy && (in.Op&7 == x86.RSP && !in.HasModRM) {
		return 0, false
	}
	return 0, in.Kind != x86.Syscall
}

// touch writes what is in front of an instruction. Alone says that this is in another run.
func (w *Writer) touch(op Op, alone bool) {
	t := &w.code.Touches[op.To]
	w.runs.BeginTouch(w.asm, w.shown(op.Inst), t, alone)
	t.Write(w.asm, &emit.TouchUse{Word: w.counter.Saved, Mask: w.mask, Fix: w.fixAt})
}
