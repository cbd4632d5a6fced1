package survey

import (
	"bytes"
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
)

// The system calls of 32-bit programs, which 64-bit ones can make, too, by int $0x80,
// have other numbers, and are no kernel sites. By these a thread or process is made
// (Linux, arch/x86/entry/syscalls/syscall_32.tbl).
const (
	oldFork   = 2
	oldClone  = 120
	oldVfork  = 190
	oldClone3 = 435
)

var oldBirths = []uint32{oldFork, oldClone, oldVfork, oldClone3}

var opInt80 = []byte{0xcd, 0x80}

// OldBirths reports whether a function of the object, fully decoded, may make a
// thread or process by int $0x80, which then counts in its parent's row.
func (s *Survey) OldBirths() bool { return s.oldBirths }

// systemCall looks at the system call in at offset at of the function's code.
func (w *sweep) systemCall(in *x86.Inst, code []byte, at int, pc uint64) {
	switch instruction := code[at : at+int(in.Len)]; {
	case bytes.HasSuffix(instruction, opSyscall):
		w.site(code, at, pc)
		w.usesGS = w.usesGS || setsGS(code, at)
	case bytes.HasSuffix(instruction, opInt80):
		w.line.goTo(code, at)
		number, known := w.line.number(code)
		w.oldBirth = w.oldBirth || !known || slices.Contains(oldBirths, number)
	}
}
