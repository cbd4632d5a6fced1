/* A kernel site's system call is made by another `syscall; ret`: -16(%rsp) is where
 * that is, -24(%rsp) where to go on (withdraw.c). */
#include "base/saved.h"

	.text
	.globl	dp_other_call
	.hidden	dp_other_call
	.type	dp_other_call, @function
dp_other_call:
	.cfi_startproc
	.cfi_def_cfa rsp, 0
	.cfi_escape HOME_OF_BELOW
	call	*-16(%rsp)
	jmp	*-24(%rsp)
	.cfi_endproc
	.size	dp_other_call, . - dp_other_call

	.section .note.GNU-stack, "", @progbits
