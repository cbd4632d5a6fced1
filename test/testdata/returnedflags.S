/* Functions that leave status flags to their callers, which the ABI has no place for, but
   assembly by hand may do. Between what sets them and the return a block begins. And flags
   behind a system call, which leaves them alone. */
	.text
	.globl called, jumped, looped, last, entered

	.type sets, @function
sets:
	cmpl	$5, %edi
	jae	1f
	ret
1:	ret
	.size sets, . - sets

	.type counts, @function
counts:
	leal	1(%rdi), %ecx
1:	decl	%ecx
	jnz	1b
	cmpl	$7, %edi
	jb	2f
	ret
2:	ret
	.size counts, . - counts

	.type jumps, @function
jumps:
	testl	$4, %edi
	jz	1f
	jmp	sets
1:	jmp	counts
	.size jumps, . - jumps

	.type calls, @function
calls:
	call	sets
	ret
	.size calls, . - calls

	.type called, @function
called:
	call	sets
	setp	%al
	sets	%cl
	leal	(%rax,%rcx,2), %eax
	andl	$3, %eax
	ret
	.size called, . - called

	.type jumped, @function
jumped:
	call	jumps
	setp	%al
	movzbl	%al, %eax
	ret
	.size jumped, . - jumped

	.type looped, @function
looped:
	call	counts
	jz	1f
	jp	2f
	movl	$3, %eax
	ret
1:	movl	$1, %eax
	ret
2:	movl	$2, %eax
	ret
	.size looped, . - looped

	.type last, @function
last:
	call	calls
	setp	%al
	movzbl	%al, %eax
	ret
	.size last, . - last

	.type entered, @function
entered:
	movl	$39, %eax		/* getpid */
	cmpl	$9, %edi
	jae	1f
	syscall
	jmp	2f
1:	syscall
2:	setp	%al
	movzbl	%al, %eax
	ret
	.size entered, . - entered
	.section .note.GNU-stack,"",@progbits
