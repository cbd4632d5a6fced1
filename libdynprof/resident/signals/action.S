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
	.cfi_def_cfa rsp, 0
	.cfi_escape HOME_OF_RCX
	LEAVE_RED_ZONE
	SAVE_FLAGS
	SAVE	%rcx
	.cfi_escape HOME_OF_SAVED(-144)
	SAVE_ARGUMENTS
	SAVE	%rbp
	.cfi_rel_offset rbp, 0
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	mov	%r10, %rcx
	lea	128+72(%rsp), %r8	/* the caller's stack */
	mov	%rcx, %r9
	mov	%rdx, %r11
	TO_SIDE_STACK
	mov	%r9, %rcx
	mov	%r11, %rdx
	and	$-16, %rsp
	CLEAN_FLAGS
	call	dp_action
	FROM_SIDE_STACK
	.cfi_def_cfa_register rsp
	LOAD	%rbp
	.cfi_restore rbp
	LOAD_ARGUMENTS
	LOAD	%rcx
	.cfi_escape HOME_OF_RCX
	LOAD_FLAGS
	TO_RED_ZONE
	lea	2(%rcx), %rcx		/* behind it */
	.cfi_escape HOME_OF_PASSED
	jmp	*%rcx
	.cfi_endproc
	.size	dp_action_site, . - dp_action_site

	.section .note.GNU-stack, "", @progbits
