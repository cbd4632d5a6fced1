package flow

import (
	"encoding/binary"

	"github.com/dynprof/dynprof/internal/x86"
)

// path goes backwards from an instruction, as long as there is only one way to come there.
type path struct {
	*dispatcher
	block int32
	at    int32 // instruction; those in front of it are next
	cond  int   // the condition that holds on the way to the block, by the flags at at; -1: none
	steps int
}

// longestPath bounds the instructions that are looked at.
const longestPath = 64

// back goes to the instruction in front; false where there are several ways to come, or a
// call.
func (p *path) back() bool {
	if p.steps++; p.steps > longestPath {
		return false
	}
	if p.at > p.g.Blocks[p.block].First {
		p.at--
		return true
	}
	b := &p.g.Blocks[p.block]
	come := p.preds.of(p.block)
	if b.Entered != 0 || len(come) != 1 {
		return false
	}
	from := come[0]
	last := p.g.Last(&p.g.Blocks[from])
	p.cond = none
	switch last.Kind {
	case x86.Jcc:
		p.cond = int(last.Cond())
		for _, e := range p.g.Blocks[from].Succs {
			if e.To == p.block && e.Kind == Fall {
				p.cond ^= 1 // it did not jump
			}
		}
	case x86.Call, x86.CallInd, x86.Syscall, x86.JmpInd, x86.Ret, x86.Loop, x86.Trap:
		return false
	}
	p.block, p.at = from, p.g.Blocks[from].End-1
	return true
}

const none = -1

// base is the address of the table that an operand is of: its displacement, or what its base
// holds.
func (p path) base(m x86.Memory) (table uint64, ok bool) {
	if m.Base == x86.NoRegister {
		return uint64(int64(m.Disp)), p.obj.Absolute && m.Disp > 0
	}
	if m.Disp != 0 {
		return 0, false
	}
	first := p.g.Blocks[p.block].First
	table = p.behind(first, p.at, m.Base, p.held(m.Base)[p.block])
	return table, table != notSeen && table != anything
}

// bound is how many values a register may have that is an index of a table, 0 if that is not
// known. Bits that a comparison of 32 bits does not see are zero, or the program would read
// beyond its own table.
func (p path) bound(r byte) int {
	n, width := p.limit(r)
	if n == 0 && width <= 8 {
		return 1 << width
	}
	return n
}

// limit is the bound that a comparison, or a mask, gives, 0 if there is none; of the
// register no more than width bits matter.
func (p path) limit(r byte) (bound, width int) {
	width = 32
	p.cond = none
	var other compared // than r, which may turn out to be a copy of it
	for p.back() {
		in, code := &p.g.Insts[p.at], p.code(p.at)
		if c, ok := p.compares(in, code); ok && c.reg == r && c.width >= width {
			return c.bound, width
		} else if ok {
			other = c
		}
		if _, written := in.Flags(); written != 0 {
			p.cond = none
		}
		written := in.Effects(code).Written
		if written.Has(r) {
			from, w, most := narrows(in, code, r)
			switch {
			case most >= 0:
				return most + 1, width
			case from == x86.NoRegister:
				return 0, width
			}
			r, width = from, min(width, w)
			if other.bound > 0 && other.reg == r && other.width >= width {
				return other.bound, width
			}
		}
		if other.bound > 0 && written.Has(other.reg) {
			other = compared{}
		}
	}
	return 0, width
}

// compared is a register of which width bits are less than bound.
type compared struct {
	reg          byte
	width, bound int
}

// Conditions by their codes: below, and below or equal.
const (
	condB  = 2
	condBE = 6
)

// compares reports `cmp $n, %r` whose outcome the way has taken.
func (p *path) compares(in *Inst, code []byte) (c compared, ok bool) {
	if in.Map != x86.MapLegacy || in.Enc != x86.EncLegacy || in.Kind != x86.Plain || p.cond != condB && p.cond != condBE {
		return c, false
	}
	const toCmp, inALImm, inRAXImm = 7, 0x3c, 0x3d
	width := 32
	if in.Rex&x86.RexW != 0 {
		width = 64
	} else if in.Prefix&x86.PrefixOpSize != 0 {
		width = 16
	}
	reg, inReg := in.RM()
	switch in.Op {
	case inALImm, inRAXImm:
		reg, inReg = x86.RAX, true
		if in.Op == inALImm {
			width = 8
		}
	case opImm8Byte, opImm32, opImm8:
		if in.Reg()&7 != toCmp || in.Op == opImm8Byte && in.IsHighByte(reg) {
			return c, false
		}
		if in.Op == opImm8Byte {
			width = 8
		}
	default:
		return c, false
	}
	n := immediate(in, code)
	if width == 8 {
		n &= 0xff
	}
	if ok = inReg && n >= 0; p.cond == condBE {
		n++
	}
	return compared{reg, width, n}, ok
}

const (
	opImm8Byte = 0x80 // add, or, ... cmp with 8 bits
	opImm32    = 0x81
	opImm8     = 0x83
)

func immediate(in *Inst, code []byte) int {
	switch in.ImmSize {
	case 1:
		return int(int8(in.Imm8))
	case 2:
		return int(binary.LittleEndian.Uint16(code[in.ImmOff:]))
	case 4:
		return int(int32(binary.LittleEndian.Uint32(code[in.ImmOff:])))
	}
	return none
}

// narrows says what an instruction that writes register r makes of it: what register from
// had, of which so many bits matter; or something that is most at most, else -1.
func narrows(in *Inst, code []byte, r byte) (from byte, width, most int) {
	const opMovzx8, opMovzx16, opAnd, opAndRAX, toAnd = 0xb6, 0xb7, 0x21, 0x25, 4
	rm, inReg := in.RM()
	if in.Enc != x86.EncLegacy || in.Prefix&x86.PrefixOpSize != 0 && in.Rex&x86.RexW == 0 {
		return x86.NoRegister, 0, none
	}
	switch {
	case in.Map == x86.MapLegacy && (in.Op == opMovLoad || in.Op == opMovslq) && inReg && in.Reg() == r:
		return rm, 32, none
	case in.Map == x86.MapLegacy && in.Op == opMovStore && inReg && rm == r:
		return in.Reg(), 32, none
	case in.Map == x86.Map0F && in.Op == opMovzx8 && in.Reg() == r:
		if inReg && !in.IsHighByte(rm) {
			return rm, 8, none
		}
		return x86.NoRegister, 0, 0xff
	case in.Map == x86.Map0F && in.Op == opMovzx16 && in.Reg() == r && inReg:
		return rm, 16, none
	case in.Map == x86.MapLegacy && (in.Op == opImm8 || in.Op == opImm32) && inReg && rm == r && in.Reg()&7 == toAnd && immediate(in, code) >= 0:
		return x86.NoRegister, 0, immediate(in, code)
	case in.Map == x86.MapLegacy && in.Op == opAndRAX && r == x86.RAX && immediate(in, code) >= 0:
		return x86.NoRegister, 0, immediate(in, code)
	}
	return x86.NoRegister, 0, none
}
