#include "textflag.h"
#include "go_asm.h"

// hotspots_entry is the entry point of the executable if the build says so
// (-ldflags "-E hotspots_entry"). It asks for the action of each signal
// (rt_sigaction, 13) before the Go runtime replaces them and notes those that
// are ignored (SIG_IGN, 1), for those that are blocked (rt_sigprocmask, 14),
// for the limit of descriptors (getrlimit, 97), which package syscall raises, and
// for those of the first three that are closed (fcntl, 72; F_GETFD, 1), which the
// runtime opens, and goes on to the runtime's own entry point. The stack is left as the kernel
// made it.
TEXT hotspots_entry(SB), NOSPLIT|NOFRAME, $0
	SUBQ	$40, SP
	XORL	R12, R12
	MOVL	$64, R13
next:
	MOVL	$13, AX
	MOVL	R13, DI
	XORL	SI, SI
	MOVQ	SP, DX
	MOVL	$8, R10
	SYSCALL
	CMPQ	0(SP), $1
	JNE	other
	LEAQ	-1(R13), CX
	BTSQ	CX, R12
other:
	DECL	R13
	JNE	next
	MOVQ	R12, ·atStart+inherited_ignored(SB)
	MOVL	$14, AX
	XORL	DI, DI
	XORL	SI, SI
	LEAQ	·atStart+inherited_blocked(SB), DX
	MOVL	$8, R10
	SYSCALL
	MOVL	$97, AX
	MOVL	$7, DI
	LEAQ	·atStart+inherited_files(SB), SI
	SYSCALL
	XORL	R12, R12
	MOVL	$2, R13
descriptor:
	MOVL	$72, AX
	MOVL	R13, DI
	MOVL	$1, SI
	SYSCALL
	TESTQ	AX, AX
	JGE	open
	BTSQ	R13, R12
open:
	DECL	R13
	JGE	descriptor
	MOVQ	R12, ·atStart+inherited_closed(SB)
	ADDQ	$40, SP
	JMP	_rt0_amd64_linux(SB)
