/* System calls as Go's assembler makes them. In those that are called none_* there is no site. */
	.text
	.macro	function name
	.globl	\name
	.type	\name, @function
	.p2align 5
\name:
	.endm

	/* internal/runtime/syscall.Syscall6, since 1.20 */
	function site_abi
	mov	%rsi, %r10
	mov	%rdi, %rdx
	mov	%rcx, %rsi
	mov	%rbx, %rdi
	syscall
	cmp	$-4095, %rax
	jbe	1f
	neg	%rax
	mov	%rax, %rcx
	mov	$-1, %rax
	mov	$0, %rbx
	ret
1:	mov	%rdx, %rbx
	mov	$0, %rcx
	ret
	.size	site_abi, . - site_abi

	/* runtime/internal/syscall.Syscall6 of 1.18 */
	function site_stack
	mov	8(%rsp), %rax
	mov	16(%rsp), %rdi
	mov	24(%rsp), %rsi
	mov	32(%rsp), %rdx
	mov	40(%rsp), %r10
	mov	48(%rsp), %r8
	mov	56(%rsp), %r9
	syscall
	cmp	$-4095, %rax
	jbe	1f
	mov	%rax, 64(%rsp)
	ret
1:	mov	%rdx, 72(%rsp)
	ret
	.size	site_stack, . - site_stack

	/* syscall.Syscall of 1.17 and before */
	function site_before
	push	%rbp
	call	site_stack
	mov	24(%rsp), %rdi
	mov	32(%rsp), %rsi
	mov	40(%rsp), %rdx
	mov	16(%rsp), %rax
	syscall
	cmp	$-4095, %rax
	pop	%rbp
	ret
	.size	site_before, . - site_before

	/* syscall.rawVforkSyscall */
	function site_vfork
	mov	16(%rsp), %rdi
	mov	24(%rsp), %rsi
	mov	$0, %r10
	mov	8(%rsp), %rax
	pop	%r12
	syscall
	push	%r12
	cmp	$-4095, %rax
	jbe	1f
	mov	%rax, 48(%rsp)
	ret
1:	mov	%rax, 40(%rsp)
	ret
	.size	site_vfork, . - site_vfork

	/* the same with a large frame */
	function site_far
	mov	0x110(%rsp), %rdi
	mov	0x108(%rsp), %rax
	syscall
	ret
	.size	site_far, . - site_far

	/* a number that is known, and of no interest */
	function none_known
	mov	8(%rsp), %rdi
	mov	16(%rsp), %rsi
	mov	$202, %eax
	mov	24(%rsp), %rdx
	syscall
	ret
	.size	none_known, . - none_known

	/* at the entry of a function that is counted */
	function none_entry
	mov	%rbx, %rdi
	syscall
	cmp	$-4095, %rax
	ret
	.size	none_entry, . - none_entry

	/* somebody jumps in between */
	function none_jump
	mov	8(%rsp), %rdi
	mov	16(%rsp), %rdx
	mov	%rbx, %rdi
1:	syscall
	cmp	$-4, %rax
	je	1b
	ret
	.size	none_jump, . - none_jump

	/* what may not run elsewhere, in front */
	function none_relative
	mov	8(%rsp), %rdi
	mov	16(%rsp), %rdx
	lea	none_jump(%rip), %rsi
	syscall
	ret
	.size	none_relative, . - none_relative

	.section .note.GNU-stack, "", @progbits
