package translate

import (
	"encoding/binary"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/flow"
)

// Pages that memory is read and written in. Accesses of a block by the same registers, which
// nothing changes in between, are one Touch in front of the first of them, if all lie in less
// than a page: the pages of their first and their last byte are all that there are. What is
// read and what is written are apart, as both ends shall be of the same kind.

// touchChange are the flags that a Touch changes and somebody may mean to read: not AF.
const touchChange = x86.FlagsAll &^ x86.FlagAF

// mostTouched is how many bytes a Touch has.
const mostTouched = 4096

// NoteTouches puts a Touch in front of accesses. It comes behind Count or CountAs, and
// NoteCallees. Nearly all returns have one: so what a function leaves in flags stays, though few
// mean to leave any.
func (c *Code) NoteTouches(o *stubgen.Object) {
	g := c.Home.Graph
	t := toucher{code: c, obj: o, live: g.FlagsForCallers()}
	ops, begins := make([]Op, 0, 2*len(c.Ops)), make([]int32, 0, len(g.Blocks))
	for k := range g.Blocks {
		begins = append(begins, int32(len(ops)))
		t.block(c.ops(k))
		for i, op := range c.ops(k) {
			if t.isFirst(c.ops(k), i) {
				for _, n := range t.at[op.Inst] {
					ops = append(ops, Op{Kind: Touch, Inst: op.Inst, To: n})
				}
			}
			ops = append(ops, op)
		}
	}
	c.Ops, c.Begins = ops, begins
}

// toucher finds the touches.
type toucher struct {
	code *Code
	obj  *stubgen.Object
	live []x86.FlagSet
	at   map[int32][]int32 // of a block, by instruction: Code.Touches
	open []touched         // more may come to them
	rsp  int32             // how far the stack pointer is from where it was, for open
}

// touched is a Touch that is not complete.
type touched struct {
	number   int32
	from, to int64 // displacements, from where the stack pointer was for those by it; to is excluded
	first    int64 // how far that was from where it is at the Touch
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
	t.at, t.open, t.rsp = map[int32][]int32{}, t.open[:0], 0
	for _, op := range ops {
		if op.Kind.runsHere() {
			t.instruction(op.Inst)
		}
	}
	for i := range t.open {
		t.settle(&t.open[i])
	}
}

func (t *toucher) instruction(inst int32) {
	in := &t.code.Home.Graph.Insts[inst]
	code := t.obj.Code(in.Addr)[:in.Len]
	var all [x86.MaxOperands]x86.Operand
	operands := all[:in.Operands(code, &all)]
	for i := range operands {
		t.touch(inst, in, &operands[i])
	}
	t.leave(in, code, operands)
}

// touch adds an operand.
func (t *toucher) touch(inst int32, in *flow.Inst, p *x86.Operand) {
	kind := p.Kind & (x86.OperandLoad | x86.OperandStore)
	n := int64(p.Size) * int64(p.Count)
	if kind == 0 || !p.Plain() || n > mostTouched || p.Disp > emit.MostDisplacement || p.Disp < -1<<31 {
		return
	}
	one := emit.Touch{Kind: kind, KeepsFlags: t.live[inst]&touchChange != 0}
	from, first := p.Disp, int64(0)
	if p.Base == x86.RIP {
		one.At = t.obj.Run(in.End() + uint64(p.Disp))
		from = int64(in.End()) + p.Disp
	} else {
		one.Memory = x86.Memory{Base: p.Base, Index: p.Index, Scale: p.Scale, Disp: int32(p.Disp)}
	}
	if p.Base == x86.RSP {
		first = int64(t.rsp)
		from += first
	}
	for i := range t.open {
		if old := &t.open[i]; t.extends(old, &one, from, from+n) {
			old.from, old.to = min(old.from, from), max(old.to, from+n)
			return
		}
	}
	number := int32(len(t.code.Touches))
	t.code.Touches = append(t.code.Touches, one)
	t.at[inst] = append(t.at[inst], number)
	t.open = append(t.open, touched{number, from, from + n, first})
}

// extends reports whether bytes can be part of a Touch.
func (t *toucher) extends(old *touched, one *emit.Touch, from, to int64) bool {
	have := &t.code.Touches[old.number]
	m := one.Memory
	m.Disp = have.Memory.Disp
	return have.Kind == one.Kind && have.Memory == m && (have.At != 0) == (one.At != 0) && max(old.to, to)-min(old.from, from) <= mostTouched &&
		min(old.from, from)-old.first >= -1<<31 && max(old.to, to)-old.first <= emit.MostDisplacement
}

// settle says of a Touch what it has.
func (t *toucher) settle(k *touched) {
	p := &t.code.Touches[k.number]
	if p.Last = int32(k.to - k.from - 1); p.At != 0 {
		p.At = t.obj.Run(uint64(k.from))
	} else {
		p.Memory.Disp = int32(k.from - k.first)
	}
}

// leave has touches end whose registers an instruction writes.
func (t *toucher) leave(in *flow.Inst, code []byte, operands []x86.Operand) {
	written := in.Effects(code).Written.G
	by, known := movesStack(in, code, operands)
	if t.rsp += by; !known {
		written |= 1 << x86.RSP
	}
	keep := t.open[:0]
	for i := range t.open {
		m := &t.code.Touches[t.open[i].number].Memory
		if t.code.Touches[t.open[i].number].At == 0 && (isIn(written, m.Base) || isIn(written, m.Index)) {
			t.settle(&t.open[i])
		} else {
			keep = append(keep, t.open[i])
		}
	}
	t.open = keep
}

func isIn(set uint32, register byte) bool { return register != x86.NoRegister && set>>register&1 != 0 }

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
	t.Write(w.asm)
}
