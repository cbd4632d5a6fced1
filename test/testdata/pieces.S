/* Functions whose patches lie on two pages, each in a way of its own. */
	.macro	FN name
	.globl	\name
	.hidden	\name
	.type	\name, @function
\name:	.cfi_startproc
	.endm
	.macro	END name
	.cfi_endproc
	.size	\name, . - \name
	.endm

/* Fills the page, but for the last bytes, with what holds no island. */
	.macro	FILL name, left
	.p2align 12, 0xf4
	FN \name
	.rept	(4096 - \left) / 3 - 1
	inc	%rax
	.endr
	.skip	(4096 - \left) % 3 + 2, 0x90
	ret
	END \name
	.endm

	.macro	WALL name
	FN \name
	push	%rbx
	.cfi_def_cfa_offset 16
	mov	%rdi, %rbx
	.rept	8
	call	piece_leaf
	lea	(%rbx,%rax), %rbx
	lea	1(%rbx), %rbx
	xor	$0x55, %rbx
	add	$0x1234, %rbx
	.endr
	mov	%rbx, %rax
	pop	%rbx
	.cfi_def_cfa_offset 8
	ret
	END \name
	.endm

	.text
	FILL	piece_first, 2
/* the window: its last bytes are on the next page */
	FN piece_edge
	lea	1(%rdi), %rax
	ret
	END piece_edge

/* a branch into the window: it hops to an island in the padding, which is on the
 * next page, where nothing else is that is called */
	FILL	piece_second, 16
	FN piece_hops
	mov	%rdi, %rax
1:	dec	%rdi
	jnz	1b
	call	piece_tail
	ret
	END piece_hops
	FN piece_tail
	nop
	ret
	END piece_tail
	.skip	16, 0xcc
	FN piece_unused
	.rept	(4096 - 16) / 3 - 1
	inc	%rax
	.endr
	.skip	2, 0x90
	ret
	END piece_unused

/* behind that page; no padding: a neighbour on either page makes room for an island */
	FILL	piece_third, 234
	WALL	piece_before
	FN piece_loop
	sub	$8, %rsp
	.cfi_def_cfa_offset 16
1:	lea	-1(%rdi), %rdi
	call	piece_leaf
	test	%rdi, %rdi
	jg	1b
	add	$8, %rsp
	.cfi_def_cfa_offset 8
	ret
	END piece_loop
	WALL	piece_behind
	FN piece_leaf
	mov	$3, %eax
	ret
	END piece_leaf

/* a whole body that moves, and a hop to an island in what is left of it */
	FILL	piece_fourth, 25
	FN piece_hop_back
	mov	%rdi, %rax
1:	dec	%rdi
	jnz	1b
	call	piece_leaf
	ret
	END piece_hop_back
	FN piece_body
	lea	3(%rdi), %rax
	lea	3(%rax), %rax
	lea	3(%rax), %rax
	lea	3(%rax), %rax
	lea	3(%rax), %rax
	ret
	END piece_body
	FN piece_last
	push	%rbx
	.cfi_def_cfa_offset 16
	mov	%rdi, %rbx
	call	piece_leaf
	add	%rbx, %rax
	pop	%rbx
	.cfi_def_cfa_offset 8
	ret
	END piece_last

/* the half of a window, and nothing else, is on the next page */
	FILL	piece_fifth, 2
	FN piece_tip
	lea	5(%rdi), %rax
	ret
	END piece_tip

/* so is the half of a call's displacement */
	FILL	piece_sixth, 8
	FN piece_call
	sub	$8, %rsp
	.cfi_def_cfa_offset 16
	nop
	call	piece_leaf
	add	%rdi, %rax
	add	$8, %rsp
	.cfi_def_cfa_offset 8
	ret
	END piece_call
	.p2align 12, 0xf4
	.section .note.GNU-stack, "", @progbits
