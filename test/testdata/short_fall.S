/* A function of four bytes that goes on, through padding, into the next. The
 * five bytes of a jump at its entry do not leave the fifth, which is padding,
 * as a place to come back to. */
	.text
	.p2align 4
	.globl	short_fall
	.type	short_fall, @function
short_fall:
	lea	3(%rdi), %rax
	.size	short_fall, . - short_fall
	.p2align 4
	.globl	short_fall_next
	.type	short_fall_next, @function
short_fall_next:
	lea	(%rax,%rax), %rax
	ret
	.size	short_fall_next, . - short_fall_next

	.globl	main
	.type	main, @function
main:
	push	%rbx
	mov	$10, %ebx
1:	mov	$1, %edi
	call	short_fall
	dec	%ebx
	jnz	1b
	sub	$8, %eax
	pop	%rbx
	ret
	.size	main, . - main
	.section .note.GNU-stack, "", @progbits
