# What of libc the planner looks for: system calls that are kernel and signal sites.
	.skip	64, 0x90
	.globl	sigaction
	.type	sigaction, @function
sigaction:
	mov	$8, %r10d
	mov	$13, %eax
	syscall
	ret
	.size	sigaction, . - sigaction
	.p2align 4
	.globl	sigprocmask
	.type	sigprocmask, @function
sigprocmask:
	mov	$8, %r10d
	mov	$14, %eax
	syscall
	ret
	.size	sigprocmask, . - sigprocmask
	.p2align 4
	.globl	fork
	.type	fork, @function
fork:	mov	$57, %eax
	syscall
	ret
	.size	fork, . - fork
	.section .note.GNU-stack, "", @progbits
