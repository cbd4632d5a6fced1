package survey

import (
	"bytes"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// givenNear is how far in front of a system call its number is taken.
const givenNear = 128

// givenForms are how the number is taken, and what follows the system call.
var givenForms = []struct{ take, behind []byte }{
	{[]byte{0x48, 0x89, 0xf8}, []byte{0x48, 0x89, 0xc7, 0xe8}},             // mov %rdi,%rax; mov %rax,%rdi, call
	{[]byte{0x0f, 0xb7, 0xc0}, []byte{0x48, 0x3d, 0x7c, 0xff, 0xff, 0xff}}, // movzwl %ax,%eax; cmp $-132,%rax
}

// givenSite looks for a system call, at code[at:], by any number, which somebody else has given, as
// in that by which dietlibc makes all of them, and in musl's syscall(3), where all arguments come
// from memory, and the result is handed on:
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
	if at-from < stubgen.WindowSize-len(opSyscall) || !preparesArgument(code[from:]) {
		return stubgen.KernelSite{}, false
	}
	near := max(0, from-givenNear)
	for _, form := range givenForms {
		take := bytes.LastIndex(code[near:from], form.take)
		if take >= 0 && bytes.HasPrefix(code[at+len(opSyscall):], form.behind) && keepsRAX(code, near+take+len(form.take), at) {
			return stubgen.KernelSite{Addr: low + uint64(from), Setup: string(code[from:at]), Number: stubgen.AnyNumber}, true
		}
	}
	return stubgen.KernelSite{}, false
}

// keepsRAX reports whether code from one offset to another leaves rax alone, and just runs.
func keepsRAX(code []byte, from, to int) bool {
	var in x86.Inst
	for ; from < to && leavesRAX(code[from:]); from += int(in.Len) {
		x86.DecodeAgain(code[from:], &in)
	}
	return from == to
}
