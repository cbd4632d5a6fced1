#include "base/saved.h"
#include "signals/signals.h"

	.text
	.hidden	dp_action, dp_action_site

/* The kernel site of rt_sigaction(rdi, rsi, rdx, r10), entered from slowpath.S:
 * rcx is the thunk's own syscall; rax, rcx and r11 are free. */
	.globl	dp_action_site
	.type	dp_action_site, @function
dp_action_site:
	.cfi_startproc
	.cfi_undefined rip
	lea	-128(%rsp), %rsp
	pushfq
	push	%rcx
	PUSH_ARGUMENTS
	push	%rbp
	mov	%rsp, %rbp
	mov	%r10, %rcx
	lea	128+72(%rsp), %r8	/* the caller's stack */
	and	$-16, %rsp
	CLEAN_FLAGS
	call	dp_action
	mov	%rbp, %rsp
	pop	%rbp
	POP_ARGUMENTS
	pop	%rcx
	popfq
	lea	128(%rsp), %rsp
	lea	2(%rcx), %rcx		/* behind it */
	jmp	*%rcx
	.cfi_endproc
	.size	dp_action_site, . - dp_action_site

	.section .note.GNU-stack, "", @progbits
