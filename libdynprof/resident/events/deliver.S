/* A callback of the translator, in the middle of any function of the program. */
#include <asm/unistd.h>

	.text
	.hidden	dp_on_stack, dp_on_stack_over, dp_fault_restorer

/* dp_on_stack(fn, arg, top, area, resume): calls fn(arg) with the stack that ends
 * at top and a fresh floating-point unit; what the program had in it and in its
 * vector registers is kept in area. *resume is the stack pointer with which a
 * fault handler goes on at dp_on_stack_over if fn does not come back. */
	.globl	dp_on_stack
	.type	dp_on_stack, @function
dp_on_stack:
	.cfi_startproc
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	push	%rbx
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	push	%rcx
	.cfi_offset rbx, -24
	.cfi_offset r12, -32
	.cfi_offset r13, -40
	.cfi_offset r14, -48
	.cfi_offset r15, -56
	mov	%rsp, (%r8)
	mov	%rdx, %r9
	mov	$-1, %eax
	mov	$-1, %edx
	xsave64	(%rcx)
	fninit
	pushq	$0x1f80
	ldmxcsr	(%rsp)
	mov	%r9, %rsp
	mov	%rdi, %rax
	mov	%rsi, %rdi
	call	*%rax
	lea	-48(%rbp), %rsp
	.globl	dp_on_stack_over
dp_on_stack_over:
	pop	%rcx
	mov	$-1, %eax
	mov	$-1, %edx
	xrstor64 (%rcx)
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbx
	pop	%rbp
	.cfi_def_cfa rsp, 8
	cld
	ret
	.cfi_endproc
	.size	dp_on_stack, . - dp_on_stack

/* rt_sigreturn, behind a handler of ours. */
	.globl	dp_fault_restorer
	.type	dp_fault_restorer, @function
dp_fault_restorer:
	mov	$__NR_rt_sigreturn, %eax
	syscall
	.size	dp_fault_restorer, . - dp_fault_restorer

	.section .note.GNU-stack, "", @progbits
