/* All threads of this process are stopped by somebody outside, who has left in rbx of each
 * a struct dp_parked with its registers, and has led one to dp_write and all others to
 * dp_park. Mostly only that one comes to run here: who is outside sees that it is done, and
 * gives each thread its registers. But should he be killed in the middle, the kernel lets
 * all run, and they get on without him:
 *
 *  1. Who writes stores DP_BUSY in place of DP_NOT_BEGUN, and only then changes anything.
 *  2. Who is parked and runs although nothing has begun stores DP_GIVEN_UP in its place:
 *     then nothing will be changed, and each goes on where it was.
 *  3. Else it waits, with its signals blocked, until who writes stores DP_DONE, and goes on
 *     where that one has left word that it shall.
 *  4. Who writes waits a second, if nobody has come for it, and goes on as well.
 * Nothing is pushed to the program's stack until the end, and there only behind the red
 * zone, as by a signal.
 */
#include <asm/prctl.h>
#include <asm/unistd.h>

#include "attach/attach.h"

#define SIG_SETMASK 2
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define RED_ZONE 128

	.text
	.hidden	dp_attach_here

	/* rt_sigprocmask(SIG_SETMASK, at, 0, 8) */
	.macro	SET_MASK at
	mov	$__NR_rt_sigprocmask, %eax
	mov	$SIG_SETMASK, %edi
	lea	\at, %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	syscall
	.endm

	/* In place of DP_NOT_BEGUN; r13: the word. */
	.macro	DECIDE what
	mov	DP_PARKED_REQUEST(%rbx), %r13
	xor	%eax, %eax
	mov	$\what, %ecx
	lock cmpxchg %ecx, DP_ATTACH_WORD(%r13)
	.endm

	.globl	dp_park
	.type	dp_park, @function
dp_park:
	SET_MASK .Lall_signals(%rip)
	DECIDE	DP_GIVEN_UP
1:	cmpl	$DP_BUSY, DP_ATTACH_WORD(%r13)
	jne	.Lgo_on
	mov	$__NR_futex, %eax
	lea	DP_ATTACH_WORD(%r13), %rdi
	mov	$FUTEX_WAIT, %esi
	mov	$DP_BUSY, %edx
	xor	%r10d, %r10d
	syscall
	jmp	1b
	.size	dp_park, . - dp_park

	.globl	dp_write
	.type	dp_write, @function
dp_write:
	SET_MASK .Lall_signals(%rip)
	DECIDE	DP_BUSY
	jne	.Lgo_on
	mov	DP_ATTACH_STACK(%r13), %rsp
	push	$2			/* clean flags */
	popfq
	mov	%r13, %rdi
	call	dp_attach_here
	movl	$DP_DONE, DP_ATTACH_WORD(%r13)
	mov	$__NR_futex, %eax
	lea	DP_ATTACH_WORD(%r13), %rdi
	mov	$FUTEX_WAKE, %esi
	mov	$0x7fffffff, %edx
	syscall
	/* ppoll: what it does when it is interrupted leaves no trace in the thread. */
	mov	$__NR_ppoll, %eax
	xor	%edi, %edi
	xor	%esi, %esi
	push	$0
	push	$1
	mov	%rsp, %rdx
	xor	%r10d, %r10d
	mov	$8, %r8d
	syscall
	movl	$1, DP_PARKED_LEFT(%rbx)

	/* rbx, r13; rsp: anything. */
.Lgo_on:
	lea	DP_PARKED_FROM(%rbx), %r12
	cmpl	$DP_DONE, DP_ATTACH_WORD(%r13)
	jne	1f
	lea	DP_PARKED_TO(%rbx), %r12
	mov	DP_PARKED_GS(%rbx), %rsi
	cmp	$DP_KEEP_GS, %rsi
	je	1f
	mov	$__NR_arch_prctl, %eax
	mov	$ARCH_SET_GS, %edi
	syscall
1:	mov	DP_PLACE_RSP(%r12), %rsp
	SET_MASK DP_PARKED_MASK(%rbx)
	lea	-RED_ZONE-8(%rsp), %rsp
	mov	DP_PLACE_RIP(%r12), %rax
	mov	%rax, (%rsp)
	push	DP_PLACE_EFLAGS(%r12)
	popfq
	mov	DP_PLACE_RAX(%r12), %rax
	mov	DP_PLACE_RBX(%r12), %rbx
	mov	DP_PLACE_RCX(%r12), %rcx
	mov	DP_PLACE_RDX(%r12), %rdx
	mov	DP_PLACE_RSI(%r12), %rsi
	mov	DP_PLACE_RDI(%r12), %rdi
	mov	DP_PLACE_RBP(%r12), %rbp
	mov	DP_PLACE_R8(%r12), %r8
	mov	DP_PLACE_R9(%r12), %r9
	mov	DP_PLACE_R10(%r12), %r10
	mov	DP_PLACE_R11(%r12), %r11
	mov	DP_PLACE_R13(%r12), %r13
	mov	DP_PLACE_R14(%r12), %r14
	mov	DP_PLACE_R15(%r12), %r15
	mov	DP_PLACE_R12(%r12), %r12
	ret	$RED_ZONE
	.size	dp_write, . - dp_write

	.section .rodata
	.p2align 3
.Lall_signals:
	.quad	~0

	.section .note.GNU-stack, "", @progbits
