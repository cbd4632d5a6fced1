package translate

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/flow"
)

// Operands by FS or GS, and of 32-bit addresses (emit.Mark). Spans of the former end where an
// instruction changes a base. The latter are spans of their own.

// The bases of segments, beside registers; noBase is of none.
const (
	fsBase   = x86.RIP + 1
	gsBase   = fsBase + 1
	noBase   = gsBase + 1
	lastBase = noBase
)

func baseOf(s x86.Segment) int {
	return [...]int{x86.SegmentNone: noBase, x86.SegmentFS: fsBase, x86.SegmentGS: gsBase}[s]
}

// notes reports whether accesses of an operand are noted by its address.
func (how *Touching) notes(p *x86.Operand) bool {
	return p.Linear() && p.Disp <= emit.MostDisplacement && p.Disp >= -1<<31 && how.hasBase(p)
}

// hasBase reports whether the base of its segment can be asked for, if it has one.
func (how *Touching) hasBase(p *x86.Operand) bool {
	if (how.Threads || how.Tells) && p.Segment != x86.SegmentNone && p.Base == x86.RAX && p.Index == x86.RAX { // which takes too much room
		return false
	}
	return p.Segment == x86.SegmentNone || how.Bases && (p.Segment == x86.SegmentFS || !how.Row)
}

// classOf is an operand's address but for its displacement.
func classOf(p *x86.Operand) x86.Memory {
	return x86.Memory{Base: p.Base, Index: p.Index, Scale: p.Scale, Segment: p.Segment, Addr32: p.Flags&x86.OperandAddr32 != 0}
}

// setsBases reports whether an instruction changes the base of FS or GS: wrfsbase, wrgsbase, and
// loads of their selectors; all that asks the kernel is a block's end.
func setsBases(in *flow.Inst) bool {
	if in.Enc != x86.EncLegacy {
		return false
	}
	reg := in.ModRM >> 3 & 7
	switch _, isReg := in.RM(); {
	case in.Map == x86.Map0F && in.Op == 0xae:
		return isReg && in.Prefix&x86.PrefixRep != 0 && reg >= 2 && reg <= 3
	case in.Map == x86.Map0F:
		return in.Op == 0xa1 || in.Op == 0xa9 || in.Op == 0xb4 || in.Op == 0xb5
	}
	return in.Map == x86.MapLegacy && in.Op == 0x8e
}

// isFar reports whether both ends have marks of their own.
func isFar(class *x86.Memory) bool { return class.Segment != x86.SegmentNone || class.Addr32 }
