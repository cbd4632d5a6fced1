package entry

import (
	"github.com/dynprof/dynprof/internal/x86"
)

// mayFault reports whether in may access memory by an address that a program
// computed. In Go that is how nil pointers are found: the signal handler turns
// the fault into a panic, if it knows the function that the address is in.
// Accesses by the stack pointer, the instruction pointer, R14 (the goroutine)
// and a segment do not fault.
func mayFault(in *x86.Inst, code []byte) bool {
	const opLea, opString, opStringEnd = 0x8d, 0xa4, 0xaf
	if in.Map == x86.MapLegacy && in.Op >= opString && in.Op <= opStringEnd && in.Op != 0xa8 && in.Op != 0xa9 {
		return true
	}
	switch {
	case !in.HasModRM, in.ModRM >= 0xc0, in.Kind == x86.Nop, in.Map == x86.MapLegacy && in.Op == opLea, in.RIPRel():
		return false
	case in.Prefix&(x86.PrefixFS|x86.PrefixGS) != 0:
		return false
	}
	base := in.ModRM & 7
	if base == 4 {
		base = code[in.ModRMOff+1] & 7
	}
	if in.Rex&x86.RexB != 0 {
		base |= 8
	}
	const rsp, r14 = 4, 14
	return base != rsp && base != r14
}
