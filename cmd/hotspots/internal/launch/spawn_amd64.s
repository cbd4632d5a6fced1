#include "textflag.h"
#include "go_asm.h"

// Offsets in the frame of spawn, which the child shares: what the parent needs
// afterwards the child leaves alone.
#define OLD_MASK 0
#define ALL      8
#define ACTION   16

// func spawn(path *byte, argv, envv **byte, as *inherited) (pid int)
//
// The child shares memory and stack and the parent sleeps until it has executed
// the program or ended (clone, 56, with CLONE_VM and CLONE_VFORK):
//
//  1. The parent blocks all signals: none of its handlers runs in the child. It takes the
//     interval timers of before (setitimer, 38), which a child does not have from it; what
//     they have sent by then is passed on.
//  2. The child gives each signal its default action, or ignores it as before
//     (rt_sigaction, 13).
//  3. It lets in the signals that came in before (rt_sigprocmask, 14), and takes
//     the limit of descriptors from before (prlimit64, 302; RLIMIT_NOFILE, 7).
//  4. It closes the descriptors that were closed (close, 3).
//  5. It writes its number (getpid, 39), in decimal digits, where that belongs, and
//     sets the timers.
//  6. It executes the program (execve, 59), or stores the error and ends.
//
// With a gate the child is a copy (SIGCHLD alone), which first of all closes the other end of
// the pipe, so that it learns of the parent's end, and waits for a byte (read, 0).
TEXT ·spawn(SB), NOSPLIT, $56-40
	MOVQ	as+24(FP), R12
	MOVQ	$-1, ALL(SP)
	MOVL	$14, AX
	MOVL	$2, DI
	LEAQ	ALL(SP), SI
	LEAQ	OLD_MASK(SP), DX
	MOVL	$8, R10
	SYSCALL
	MOVQ	$0, ACTION(SP)
	MOVQ	$0, (ACTION+8)(SP)
	MOVQ	$0, (ACTION+16)(SP)
	MOVQ	$0, (ACTION+24)(SP)
	LEAQ	inherited_timers(R12), BX
	XORL	R13, R13
take:
	MOVQ	16(BX), AX
	ORQ	24(BX), AX
	JNE	taken
	MOVL	$38, AX
	MOVQ	R13, DI
	LEAQ	ACTION(SP), SI
	MOVQ	BX, DX
	SYSCALL
taken:
	ADDQ	$32, BX
	INCL	R13
	CMPL	R13, $3
	JNE	take
	MOVL	$56, AX
	MOVL	$0x4111, DI
	CMPQ	inherited_gate(R12), $0
	JEQ	make
	MOVL	$0x11, DI
make:
	XORL	SI, SI
	XORL	DX, DX
	XORL	R10, R10
	XORL	R8, R8
	SYSCALL
	TESTQ	AX, AX
	JEQ	child
	MOVQ	AX, pid+32(FP)
	MOVL	$14, AX
	MOVL	$2, DI
	LEAQ	OLD_MASK(SP), SI
	XORL	DX, DX
	MOVL	$8, R10
	SYSCALL
	RET
child:
	CMPQ	inherited_gate(R12), $0
	JEQ	actions
	MOVL	$3, AX
	MOVQ	inherited_opener(R12), DI
	SYSCALL
	XORL	AX, AX
	MOVQ	inherited_gate(R12), DI
	LEAQ	ACTION(SP), SI
	MOVL	$1, DX
	SYSCALL
	CMPQ	AX, $1
	JNE	end
actions:
	MOVQ	$0, (ACTION+8)(SP)
	MOVQ	$0, (ACTION+16)(SP)
	MOVQ	$0, (ACTION+24)(SP)
	MOVL	$64, R13
next:
	XORL	BX, BX
	LEAQ	-1(R13), CX
	BTQ	CX, inherited_ignored(R12)
	ADCQ	$0, BX
	MOVQ	BX, ACTION(SP)
	MOVL	$13, AX
	MOVL	R13, DI
	LEAQ	ACTION(SP), SI
	XORL	DX, DX
	MOVL	$8, R10
	SYSCALL
	DECL	R13
	JNE	next
	CMPQ	(inherited_files+8)(R12), $0
	JEQ	mask
	MOVL	$302, AX
	XORL	DI, DI
	MOVL	$7, SI
	LEAQ	inherited_files(R12), DX
	XORL	R10, R10
	SYSCALL
mask:
	MOVL	$14, AX
	MOVL	$2, DI
	LEAQ	inherited_blocked(R12), SI
	XORL	DX, DX
	MOVL	$8, R10
	SYSCALL
	MOVL	$2, R13
descriptor:
	BTQ	R13, inherited_closed(R12)
	JCC	open
	MOVL	$3, AX
	MOVL	R13, DI
	SYSCALL
open:
	DECL	R13
	JGE	descriptor
	MOVL	$39, AX
	SYSCALL
	MOVQ	AX, R9
	MOVL	$2, R13
number:
	MOVQ	inherited_numbers(R12)(R13*8), DI
	TESTQ	DI, DI
	JEQ	written
	MOVQ	R9, AX
	LEAQ	(ACTION+24)(SP), SI
	MOVL	$10, CX
digit:
	XORL	DX, DX
	DIVQ	CX
	ADDL	$0x30, DX
	DECQ	SI
	MOVB	DX, (SI)
	TESTQ	AX, AX
	JNE	digit
	LEAQ	(ACTION+24)(SP), CX
	SUBQ	SI, CX
	CLD
	REP; MOVSB
written:
	DECL	R13
	JGE	number
	LEAQ	inherited_timers(R12), BX
	XORL	R13, R13
give:
	MOVQ	16(BX), AX
	ORQ	24(BX), AX
	JEQ	given
	MOVL	$38, AX
	MOVQ	R13, DI
	MOVQ	BX, SI
	XORL	DX, DX
	SYSCALL
given:
	ADDQ	$32, BX
	INCL	R13
	CMPL	R13, $3
	JNE	give
	MOVL	$59, AX
	MOVQ	path+0(FP), DI
	MOVQ	argv+8(FP), SI
	MOVQ	envv+16(FP), DX
	SYSCALL
	NEGQ	AX
	MOVQ	AX, inherited_errno(R12)
end:
	MOVL	$231, AX
	MOVL	$127, DI
	SYSCALL
	INT	$3

// hotspots_caught is the handler of the signals that are passed on, on the
// signal stack of whatever thread has it. It writes what the kernel tells
// (siginfo_t, 128 bytes) to the pipe; if that is full, it passes the signal on
// itself (kill, 62), but SIGCHLD of the kernel's, as comes with each stop of who is traced,
// and what this process sent itself, as to its threads: these are for it, and it has something to
// read then. A signal that the Go runtime needs goes to the runtime's
// handler if the kernel or this process made it. A thread that is not the relay's (gettid, 186)
// blocks others from then on (uc_sigmask): one that had a signal, and no CPU to tell of it, would
// tell too late.
TEXT hotspots_caught(SB), NOSPLIT|NOFRAME, $0
	CMPL	·caught+receiver_thread(SB), $0
	JEQ	whose
	MOVL	$186, AX
	SYSCALL
	CMPL	AX, ·caught+receiver_thread(SB)
	JEQ	whose
	MOVQ	·caught+receiver_others(SB), AX
	ORQ	AX, 296(DX)
whose:
	CMPL	8(SI), $0
	JGT	own
	MOVL	16(SI), AX
	CMPL	AX, ·caught+receiver_self(SB)
	JNE	tell
own:
	LEAQ	·caught+receiver_runtimes(SB), AX
	MOVQ	(AX)(DI*8), AX
	CMPQ	AX, $1
	JLS	tell
	JMP	AX
tell:
	MOVL	DI, BX
	MOVL	$1, AX
	MOVL	·caught+receiver_to(SB), DI
	MOVL	$128, DX
	SYSCALL
	CMPQ	AX, $128
	JEQ	done
	CMPL	8(SI), $0
	JGT	kernels
	MOVL	16(SI), AX
	CMPL	AX, ·caught+receiver_self(SB)
	JEQ	done
	JMP	pass
kernels:
	CMPL	BX, $17
	JEQ	done
pass:
	MOVL	·caught+receiver_program(SB), DI
	TESTL	DI, DI
	JLE	done
	MOVL	$62, AX
	MOVL	BX, SI
	SYSCALL
done:
	RET

// func caughtAddress() uintptr
TEXT ·caughtAddress(SB), NOSPLIT, $0-8
	LEAQ	hotspots_caught(SB), AX
	MOVQ	AX, ret+0(FP)
	RET

// func setAction(sig int, new, old *action) (errno int)
TEXT ·setAction(SB), NOSPLIT, $0-32
	MOVL	$13, AX
	MOVQ	sig+0(FP), DI
	MOVQ	new+8(FP), SI
	MOVQ	old+16(FP), DX
	MOVL	$8, R10
	SYSCALL
	NEGQ	AX
	MOVQ	AX, errno+24(FP)
	RET

// func setMask(blocked uint64) (old uint64)
TEXT ·setMask(SB), NOSPLIT, $0-16
	MOVL	$14, AX
	MOVL	$2, DI
	LEAQ	blocked+0(FP), SI
	LEAQ	old+8(FP), DX
	MOVL	$8, R10
	SYSCALL
	RET

// func queue(pid, sig int, info *[128]byte)
TEXT ·queue(SB), NOSPLIT, $0-24
	MOVL	$129, AX
	MOVQ	pid+0(FP), DI
	MOVQ	sig+8(FP), SI
	MOVQ	info+16(FP), DX
	SYSCALL
	RET
