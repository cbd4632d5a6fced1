#include "textflag.h"
#include "go_asm.h"

// hotspots_known is hotspots_entry for who has the address of the runtime's table of
// signals in R15.
TEXT hotspots_known(SB), NOSPLIT|NOFRAME, $0
	MOVQ	R15, ·runtimeSignals(SB)
	JMP	hotspots_entry(SB)

// hotspots_entry is the entry point of the executable if the build says so
// (-ldflags "-E hotspots_entry"). It asks for the action of each signal
// (rt_sigaction, 13) before the Go runtime replaces them and notes those that
// are ignored (SIG_IGN, 1), for those that are blocked (rt_sigprocmask, 14),
// for the limit of descriptors (prlimit64, 302; RLIMIT_NOFILE, 7), which package syscall raises, and
// for those of the first three that are closed (fcntl, 72; F_GETFD, 1), which the
// runtime opens, and where the stack is, and goes on to the runtime's own entry point, or to hotspots_alone
// where that would fail. The stack is left as the kernel made it.
TEXT hotspots_entry(SB), NOSPLIT|NOFRAME, $0
	MOVQ	SP, ·stackAtStart(SB)
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
	MOVL	$302, AX
	XORL	DI, DI
	MOVL	$7, SI
	XORL	DX, DX
	LEAQ	·atStart+inherited_files(SB), R10
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
	JMP	hotspots_early(SB)

// PROCESS is for code in Go that runs before the runtime, with the stack as the kernel
// has made it: argc, argv, 0, the environment, 0. That code finds a g of zeros, whose
// stack has no end (arch_prctl, 158; ARCH_SET_FS, 0x1002), and two slices as its first
// arguments, argv and the environment with the zeros. The stack pointer is kept at 64(SP).
#define PROCESS(count) \
	MOVL	$158, AX; \
	MOVL	$0x1002, DI; \
	LEAQ	·tried+(trial_g+8)(SB), SI; \
	SYSCALL; \
	LEAQ	·tried+trial_zeros(SB), AX; \
	MOVQ	AX, ·tried+trial_g(SB); \
	MOVQ	0(SP), CX; \
	LEAQ	8(SP), SI; \
	LEAQ	16(SP)(CX*8), DX; \
	XORL	R8, R8; \
count: \
	INCQ	R8; \
	CMPQ	-8(DX)(R8*8), $0; \
	JNE	count; \
	INCQ	CX; \
	MOVQ	SP, AX; \
	ANDQ	$-16, SP; \
	SUBQ	$80, SP; \
	MOVQ	SI, 0(SP); \
	MOVQ	CX, 8(SP); \
	MOVQ	CX, 16(SP); \
	MOVQ	DX, 24(SP); \
	MOVQ	R8, 32(SP); \
	MOVQ	R8, 40(SP); \
	MOVQ	AX, 64(SP)

// hotspots_early starts the program, if that can be done before the runtime (early.go),
// and goes on to the runtime in any case.
TEXT hotspots_early(SB), NOSPLIT|NOFRAME, $0
	PROCESS(count)
	CALL	·early(SB)
	MOVQ	64(SP), SP
	JMP	hotspots_room(SB)

// hotspots_room finds out whether there is room for the Go runtime: address space
// that it reserves (mmap, 9; munmap, 11; PROT_NONE, MAP_NORESERVE), memory that it
// maps, descriptors, and threads.
TEXT hotspots_room(SB), NOSPLIT|NOFRAME, $0
	MOVQ	$const_reservedBytes, R12
	XORL	DX, DX
	MOVL	$0x4022, R10
again:
	MOVL	$9, AX
	XORL	DI, DI
	MOVQ	R12, SI
	MOVQ	$-1, R8
	XORL	R9, R9
	SYSCALL
	CMPQ	AX, $-4096
	JHI	little
	MOVQ	AX, DI
	MOVQ	R12, SI
	MOVL	$11, AX
	SYSCALL
	CMPQ	R12, $const_mappedBytes
	JEQ	files
	MOVQ	$const_mappedBytes, R12
	MOVL	$3, DX
	MOVL	$0x22, R10
	JMP	again
little:
	MOVL	$const_littleMemory, BX
	JMP	hotspots_alone(SB)
files:
	PROCESS(countForFiles)
	CALL	·lacksFiles(SB)
	MOVBLZX	0(SP), CX
	MOVQ	64(SP), SP
	MOVL	$const_fewDescriptors, BX
	TESTL	CX, CX
	JNE	lacking

	// As many threads as are needed at a time, which are fewer when the program runs
	// already, are made (clone, 56: with this stack,
	// which they do not use, CLONE_PARENT_SETTID and CLONE_CHILD_CLEARTID), wait for
	// a word (futex, 202), and end (exit, 60). The runtime starts when they have. A
	// limit may be a cgroup's, of which only a refusal tells.
threads:
	MOVL	$const_trialThreads, R14
	CMPQ	·ahead+(preparation_Early+Early_Pid)(SB), $0
	JEQ	make
	MOVL	$const_ownThreads, R14
make:
	XORL	R12, R12
thread:
	MOVL	$56, AX
	MOVL	$0x350f00, DI
	XORL	SI, SI
	LEAQ	·tried+trial_threads(SB), DX
	LEAQ	(DX)(R12*4), DX
	MOVQ	DX, R10
	XORL	R8, R8
	SYSCALL
	TESTQ	AX, AX
	JEQ	wait
	JLT	made
	INCL	R12
	CMPL	R12, R14
	JLT	thread
made:
	MOVL	R12, R13
	MOVL	$1, ·tried+trial_over(SB)
	MOVL	$202, AX
	LEAQ	·tried+trial_over(SB), DI
	MOVL	$129, SI
	MOVL	$0x7fffffff, DX
	SYSCALL
ended:
	SUBL	$1, R13
	JLT	all
gone:
	LEAQ	·tried+trial_threads(SB), DI
	LEAQ	(DI)(R13*4), DI
	MOVL	(DI), DX
	TESTL	DX, DX
	JEQ	ended
	MOVL	$202, AX
	XORL	SI, SI
	XORL	R10, R10
	SYSCALL
	JMP	gone
all:
	CMPL	R12, R14
	JLT	few
	PROCESS(count)
	CALL	·late(SB)
	MOVQ	64(SP), SP
	JMP	_rt0_amd64_linux(SB)
few:
	MOVL	$const_fewThreads, BX
lacking:
	JMP	hotspots_alone(SB)
wait:
	MOVL	$202, AX
	LEAQ	·tried+trial_over(SB), DI
	MOVL	$128, SI
	XORL	DX, DX
	XORL	R10, R10
	SYSCALL
	CMPL	·tried+trial_over(SB), $0
	JEQ	wait
	MOVL	$60, AX
	XORL	DI, DI
	SYSCALL
	INT	$3

// hotspots_alone calls alone, whose third argument is in BX, and ends the process with
// what that returns (exit_group, 231).
TEXT hotspots_alone(SB), NOSPLIT|NOFRAME, $0
	PROCESS(count)
	MOVQ	BX, 48(SP)
	CALL	·alone(SB)
	MOVQ	56(SP), DI
	MOVL	$231, AX
	SYSCALL
	INT	$3

// func become(path *byte, argv, env **byte) (errno int)
TEXT ·become(SB), NOSPLIT, $0-32
	MOVL	$59, AX
	MOVQ	path+0(FP), DI
	MOVQ	argv+8(FP), SI
	MOVQ	env+16(FP), DX
	SYSCALL
	NEGQ	AX
	MOVQ	AX, errno+24(FP)
	RET

// func tell(text string)
TEXT ·tell(SB), NOSPLIT, $0-16
	MOVL	$1, AX
	MOVL	$2, DI
	MOVQ	text_base+0(FP), SI
	MOVQ	text_len+8(FP), DX
	SYSCALL
	RET

// func text(p *byte) string
TEXT ·text(SB), NOSPLIT, $0-24
	MOVQ	p+0(FP), SI
	MOVQ	SI, ret_base+8(FP)
	XORL	CX, CX
more:
	CMPB	(SI)(CX*1), $0
	JEQ	end
	INCQ	CX
	JMP	more
end:
	MOVQ	CX, ret_len+16(FP)
	RET
