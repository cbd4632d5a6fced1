/* run loads every register, calls a function under test and stores every
 * register; capture, to which those functions jump or which they call, stores
 * what arrives there and returns with everything as it came. Neither is known
 * as a function, so that neither is counted. */
#include "state.h"

	.macro STORE to
	mov	%rax, \to+0(%rip)
	mov	%rcx, \to+8(%rip)
	mov	%rdx, \to+16(%rip)
	mov	%rbx, \to+24(%rip)
	mov	%rsp, \to+32(%rip)
	mov	%rbp, \to+40(%rip)
	mov	%rsi, \to+48(%rip)
	mov	%rdi, \to+56(%rip)
	mov	%r8, \to+64(%rip)
	mov	%r9, \to+72(%rip)
	mov	%r10, \to+80(%rip)
	mov	%r11, \to+88(%rip)
	mov	%r12, \to+96(%rip)
	mov	%r13, \to+104(%rip)
	mov	%r14, \to+112(%rip)
	mov	%r15, \to+120(%rip)
	/* Below the red zone; lea, push and pop leave the flags alone. */
	lea	-ABOVE(%rsp), %rsp
	pushfq
	popq	\to+STATE_FLAGS(%rip)
	mov	components(%rip), %eax
	xor	%edx, %edx
	xsave64	\to+STATE_XSAVE(%rip)
	.endm

	.text
	.globl	run, run_returned, capture, capture_dead
run:
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	pushfq
	mov	%rsp, host_rsp(%rip)
	mov	in+STATE_RSP(%rip), %rsp
	mov	components(%rip), %eax
	xor	%edx, %edx
	xrstor64 in+STATE_XSAVE(%rip)
	/* Leaves its trace where the return address is going to be. */
	pushq	in+STATE_FLAGS(%rip)
	popfq
	mov	in+0(%rip), %rax
	mov	in+8(%rip), %rcx
	mov	in+16(%rip), %rdx
	mov	in+24(%rip), %rbx
	mov	in+40(%rip), %rbp
	mov	in+48(%rip), %rsi
	mov	in+56(%rip), %rdi
	mov	in+64(%rip), %r8
	mov	in+72(%rip), %r9
	mov	in+80(%rip), %r10
	mov	in+88(%rip), %r11
	mov	in+96(%rip), %r12
	mov	in+104(%rip), %r13
	mov	in+112(%rip), %r14
	mov	in+120(%rip), %r15
	call	*function(%rip)
run_returned:
	STORE	after
	mov	host_rsp(%rip), %rsp
	popfq
	mov	components(%rip), %eax
	xor	%edx, %edx
	xrstor64 clean(%rip)
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret

	/* For functions that do not let the caller's flags pass. */
	.p2align 4
capture_dead:
	cmp	%rsp, %rsp
	.p2align 4
capture:
	STORE	seen
	cld
	mov	seen+STATE_RSP(%rip), %rsi
	sub	$RED_ZONE, %rsi
	lea	seen+STATE_RED(%rip), %rdi
	mov	$(RED_ZONE+ABOVE)/8, %ecx
	rep movsq
	incl	captures(%rip)
	mov	stepped(%rip), %rax
	or	%rax, seen+STATE_FLAGS(%rip)
	movq	$0, stepped(%rip)
	mov	seen+0(%rip), %rax
	mov	seen+8(%rip), %rcx
	mov	seen+16(%rip), %rdx
	mov	seen+48(%rip), %rsi
	mov	seen+56(%rip), %rdi
	pushq	seen+STATE_FLAGS(%rip)
	popfq
	lea	ABOVE(%rsp), %rsp
	ret

	.section .note.GNU-stack, "", @progbits
