package survey

import (
	"bytes"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

var opPopR12 = []byte{0x41, 0x5c}

// goSite looks for a system call, at code[at:], by a number that a function of Go's has been given,
// in rax or on its stack, and does not know:
//
//	mov  %rbx,%rdi           mov  8(%rsp),%rax
//	syscall                  pop  %r12
//	cmp  $-4095,%rax         syscall
//
// The right one is where processes are made: the child returns to its parent's caller, and
// writes over where that was. w.line leads to the system call.
func (w *sweep) goSite(code []byte, at int) (stubgen.KernelSite, bool) {
	const least = stubgen.WindowSize - 2
	if _, known := w.line.number(code); known {
		return stubgen.KernelSite{}, false
	}
	for from := range w.line.back {
		if !preparesArgument(code[from:]) && !bytes.HasPrefix(code[from:], opPopR12) && !takesNumber(code[from:]) {
			break
		}
		if at-from >= least {
			s := stubgen.KernelSite{Addr: w.low + uint64(from), Setup: string(code[from:at]), Number: stubgen.AnyNumber}
			return s, !w.isEntry(s.Addr)
		}
	}
	return stubgen.KernelSite{}, false
}

// takesNumber reports whether an instruction is mov N(%rsp),%rax.
func takesNumber(code []byte) bool {
	var in x86.Inst
	return bytes.HasPrefix(code, []byte{0x48, 0x8b}) && x86.Decode(code, &in) == nil && in.ModRM>>3&7 == 0 && in.ModRM&7 == 4 && in.ModRM>>6 != 3 && code[3] == 0x24
}
