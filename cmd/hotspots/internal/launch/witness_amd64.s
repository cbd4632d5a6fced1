#include "textflag.h"
#include "go_asm.h"

// Offsets in the frame of bear; the witness's is a copy. BEFORE are two words of zeros, as a
// timeout; INFO is a siginfo_t, with what says whose it is behind the fields of any.
#define OLD_MASK 0
#define ALL      8
#define BEFORE   16
#define INFO     32
#define TAG      (INFO+120)

// func bear(to int) (pid int)
//
// The witness (witness.go) is a copy of this process with no signal at its end, of which neither
// wait(2) nor SIGCHLD tells (clone, 56). All signals are blocked there.
//
//  1. It ends when the thread does whose child it is, or has ended (prctl, 157;
//     PR_SET_PDEATHSIG, 1; getppid, 110), and closes all descriptors but that (close_range,
//     436).
//  2. It has a name of its own, as a process and as a command line (PR_SET_NAME, 15), so that
//     who looks for hotspots, or for the program, by a name, signals nobody else; nor does who
//     looks for the file that it executes, but root (PR_SET_DUMPABLE, 4).
//  3. It takes one signal after the other (rt_sigtimedwait, 128), and writes to the pipe
//     what the kernel told of each that a process sent but hotspots itself (write, 1).
//  4. When hotspots asks, it takes what is there, and says that this was all.
//     Before and behind that is a setpgid (109) that changes nothing, but for which the
//     kernel waits until signals that it is sending to a group have reached all of it.
TEXT ·bear(SB), NOSPLIT, $160-16
	MOVL	$39, AX
	SYSCALL
	MOVQ	AX, R12
	MOVQ	$-1, ALL(SP)
	MOVL	$14, AX
	MOVL	$2, DI
	LEAQ	ALL(SP), SI
	LEAQ	OLD_MASK(SP), DX
	MOVL	$8, R10
	SYSCALL
	MOVL	$56, AX
	XORL	DI, DI
	XORL	SI, SI
	XORL	DX, DX
	XORL	R10, R10
	XORL	R8, R8
	SYSCALL
	TESTQ	AX, AX
	JEQ	child
	MOVQ	AX, pid+8(FP)
	MOVL	$14, AX
	MOVL	$2, DI
	LEAQ	OLD_MASK(SP), SI
	XORL	DX, DX
	MOVL	$8, R10
	SYSCALL
	RET
child:
	MOVQ	to+0(FP), R15
	MOVL	$157, AX
	MOVL	$1, DI
	MOVL	$9, SI
	SYSCALL
	MOVL	$110, AX
	SYSCALL
	CMPQ	AX, R12
	JNE	end
	MOVL	$436, AX
	XORL	DI, DI
	LEAQ	-1(R15), SI
	XORL	DX, DX
	SYSCALL
	MOVL	$436, AX
	LEAQ	1(R15), DI
	MOVL	$-1, SI
	XORL	DX, DX
	SYSCALL
	MOVL	$157, AX
	MOVL	$15, DI
	LEAQ	·witnessName(SB), SI
	SYSCALL
	MOVL	$157, AX
	MOVL	$4, DI
	XORL	SI, SI
	SYSCALL
	MOVQ	·stackAtStart(SB), R8
	TESTQ	R8, R8
	JEQ	named
	MOVQ	0(R8), CX
	TESTQ	CX, CX
	JEQ	named
	MOVQ	8(R8), BX
	MOVQ	(R8)(CX*8), CX
last:
	INCQ	CX
	CMPB	-1(CX), $0
	JNE	last
	LEAQ	-1(CX), R9
	SUBQ	BX, CX
	XORL	AX, AX
	MOVQ	BX, DI
	CLD
	REP; STOSB
	LEAQ	·witnessName(SB), SI
letter:
	CMPQ	BX, R9
	JEQ	named
	MOVB	(SI), AX
	MOVB	AX, (BX)
	INCQ	SI
	INCQ	BX
	TESTB	AX, AX
	JNE	letter
named:
	MOVL	$111, AX
	SYSCALL
	MOVQ	AX, R14
	MOVQ	$0, BEFORE(SP)
	MOVQ	$0, (BEFORE+8)(SP)
next:
	XORL	R13, R13
	MOVL	$128, AX
	LEAQ	ALL(SP), DI
	LEAQ	INFO(SP), SI
	XORL	DX, DX
	MOVL	$8, R10
	SYSCALL
	TESTQ	AX, AX
	JLE	next
taken:
	CMPL	(INFO+8)(SP), $0
	JGT	more
	CMPL	(INFO+16)(SP), R12
	JEQ	own
	MOVQ	$const_fromWitness, TAG(SP)
	MOVL	$1, AX
	MOVQ	R15, DI
	LEAQ	INFO(SP), SI
	MOVL	$128, DX
	SYSCALL
	CMPL	(INFO+16)(SP), $0
	JNE	more
own:
	CMPL	INFO(SP), $const_question
	JNE	more
	TESTL	R13, R13
	JNE	more
	INCL	R13
	CALL	settle<>(SB)
more:
	TESTL	R13, R13
	JEQ	next
	MOVL	$128, AX
	LEAQ	ALL(SP), DI
	LEAQ	INFO(SP), SI
	LEAQ	BEFORE(SP), DX
	MOVL	$8, R10
	SYSCALL
	TESTQ	AX, AX
	JGT	taken
	CALL	settle<>(SB)
	MOVL	$0, INFO(SP)
	MOVQ	$const_allTold, TAG(SP)
answer:
	MOVL	$1, AX
	MOVQ	R15, DI
	LEAQ	INFO(SP), SI
	MOVL	$128, DX
	SYSCALL
	CMPQ	AX, $128
	JEQ	next
	MOVL	$24, AX // the pipe is full (sched_yield): who asks reads it
	SYSCALL
	JMP	answer
end:
	MOVL	$231, AX
	XORL	DI, DI
	SYSCALL
	INT	$3

// settle waits for signals on their way to the group R14, if that has a number here.
TEXT settle<>(SB), NOSPLIT|NOFRAME, $0
	TESTQ	R14, R14
	JEQ	done
	MOVL	$109, AX
	XORL	DI, DI
	MOVQ	R14, SI
	SYSCALL
done:
	RET
