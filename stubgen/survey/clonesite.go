package survey

import (
	"bytes"

	"github.com/dynprof/dynprof/stubgen"
)

var (
	opPushEntry  = []byte{0x48, 0x89, 0x0e}           // mov %rcx,(%rsi)
	opLoadClone  = []byte{0x31, 0xc0, 0xb0, sysClone} // xor %eax,%eax; mov $56,%al
	opTestResult = []byte{0x85, 0xc0}                 // test %eax,%eax
	cloneNear    = 64                                 // how far in front of the call its number is looked for
	cloneInFront = len(opPushEntry)
)

// cloneSite looks for a system call, at code[at:], that makes a thread as musl has it: the number
// is loaded first, and what the thread is to do is put on its stack right in front:
//
//	xor  %eax,%eax
//	mov  $56,%al
//	...
//	mov  %rcx,(%rsi)
//	syscall
//	test %eax,%eax
//
// The instruction in front is at code[from:]; code starts at address low.
func cloneSite(code []byte, from, at int, low uint64) (stubgen.KernelSite, bool) {
	if from != at-cloneInFront || !bytes.HasPrefix(code[from:], opPushEntry) || !bytes.HasPrefix(code[at+len(opSyscall):], opTestResult) ||
		!bytes.Contains(code[max(0, from-cloneNear):from], opLoadClone) {
		return stubgen.KernelSite{}, false
	}
	return stubgen.KernelSite{Addr: low + uint64(from), Setup: string(code[from:at]), Number: sysClone}, true
}
