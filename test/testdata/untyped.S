# Functions as NASM and hand-written assembly leave them: labels without a type, a
# size, and unwind data.
	.text
step:
	lea	1(%rdi), %rax
	mov	%rax, %rdi
	mov	%rdi, %rax
	ret
	.globl	main
main:
	push	%rbx
	mov	$1000, %ebx
1:	call	step
	dec	%ebx
	jnz	1b
	xor	%eax, %eax
	pop	%rbx
	ret
	.section .note.GNU-stack, "", @progbits
