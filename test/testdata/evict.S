/* Functions without padding between them, as OCaml's: loops that come back
 * into the window, and no free byte for a hop in reach. */
	.text
	.p2align 4
	.macro	wall name
	.globl	\name
	.type	\name, @function
\name:	.cfi_startproc
	push	%rbx
	.cfi_def_cfa_offset 16
	mov	%rdi, %rbx
	.rept 8
	call	evict_leaf
	lea	(%rbx,%rax), %rbx
	lea	1(%rbx), %rbx
	xor	$0x55, %rbx
	add	$0x1234, %rbx
	.endr
	mov	%rbx, %rax
	pop	%rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	\name, . - \name
	.endm

	wall	evict_wall_before

	.globl	evict_loop
	.type	evict_loop, @function
evict_loop:
	.cfi_startproc
	sub	$8, %rsp
	.cfi_def_cfa_offset 16
1:	lea	-1(%rdi), %rdi
	call	evict_leaf
	test	%rdi, %rdi
	jg	1b
	add	$8, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	evict_loop, . - evict_loop

	wall	evict_wall_behind

	.globl	evict_leaf
	.type	evict_leaf, @function
evict_leaf:
	.cfi_startproc
	mov	$3, %eax
	ret
	.cfi_endproc
	.size	evict_leaf, . - evict_leaf
	.section .note.GNU-stack, "", @progbits
