/* A kernel site's system call is made by another `syscall; ret`: -16(%rsp) is where
 * that is, -24(%rsp) where to go on (withdraw.c). */
	.text
	.globl	dp_other_call
	.hidden	dp_other_call
	.type	dp_other_call, @function
dp_other_call:
	call	*-16(%rsp)
	jmp	*-24(%rsp)
	.size	dp_other_call, . - dp_other_call

	.section .note.GNU-stack, "", @progbits
