package survey

import (
	"bytes"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// givenNear is how far in front of a system call its number is taken.
const givenNear = 128

var (
	opTakeNumber = []byte{0x48, 0x89, 0xf8}       // mov %rdi,%rax
	opPassResult = []byte{0x48, 0x89, 0xc7, 0xe8} // mov %rax,%rdi; call
)

// givenSite looks for a system call, at code[at:], by any number, which is the function's first
// argument, as in musl's syscall(3), where all arguments come from memory, and the result is
// handed on:
//
//	mov  %rdi,%rax
//	...
//	mov  24(%rdx),%rdx
//	syscall
//	mov  %rax,%rdi
//	call __syscall_ret
//
// musl's own, that threads can be cancelled in, are known by their addresses, and return the
// result. The instruction in front is at code[from:]; code starts at address low.
func givenSite(code []byte, from, at int, low uint64) (stubgen.KernelSite, bool) {
	if at-from < stubgen.WindowSize-len(opSyscall) || !preparesArgument(code[from:]) || !bytes.HasPrefix(code[at+len(opSyscall):], opPassResult) {
		return stubgen.KernelSite{}, false
	}
	near := max(0, from-givenNear)
	take := bytes.LastIndex(code[near:from], opTakeNumber)
	if take < 0 || !keepsRAX(code, near+take+len(opTakeNumber), at) {
		return stubgen.KernelSite{}, false
	}
	return stubgen.KernelSite{Addr: low + uint64(from), Setup: string(code[from:at]), Number: stubgen.AnyNumber}, true
}

// keepsRAX reports whether code from one offset to another leaves rax alone, and just runs.
func keepsRAX(code []byte, from, to int) bool {
	var in x86.Inst
	for ; from < to && leavesRAX(code[from:]); from += int(in.Len) {
		x86.DecodeAgain(code[from:], &in)
	}
	return from == to
}
