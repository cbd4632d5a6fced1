package stubgen

import "github.com/dynprof/dynprof/internal/x86"

// What the Go runtime knows about its code by address.

// isGoexitCode recognises runtime.goexit (asm_amd64.s): nop, call, nop. It is
// the return address at the bottom of every goroutine's stack, entered by a
// return to its second byte and never by a call.
func isGoexitCode(code []byte) bool {
	const nop, call = 0x90, 0xe8
	return len(code) >= 7 && code[0] == nop && code[1] == call && code[6] == nop
}

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
