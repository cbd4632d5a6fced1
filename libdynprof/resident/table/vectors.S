/* Vector and mask registers, which C has no business with here (forms.h): they are only read. */
	.text
	.hidden	dp_store_vector, dp_mask_word, dp_mask_quad

#define STEP 16

	.macro	BEGIN name
	.globl	\name
	.type	\name, @function
\name:
	.cfi_startproc
	.endm

	.macro	END name
	.cfi_endproc
	.size	\name, . - \name
	.endm

	/* To code for register n, from table on. */
	.macro	GO table
	lea	\table(%rip), %rax
	shl	$4, %rdi
	add	%rdi, %rax
	jmp	*%rax
	.endm

	.altmacro
	.macro	STORE_XMM n
	.balign	STEP, 0xcc
	movdqu	%xmm\n, (%rdx)
	ret
	.endm
	.macro	STORE_YMM n
	.balign	STEP, 0xcc
	vmovdqu	%ymm\n, (%rdx)
	ret
	.endm
	.macro	STORE_ZMM n
	.balign	STEP, 0xcc
	vmovdqu64 %zmm\n, (%rdx)
	ret
	.endm
	.macro	MASK_WORD n
	.balign	STEP, 0xcc
	kmovw	%k\n, %eax
	ret
	.endm
	.macro	MASK_QUAD n
	.balign	STEP, 0xcc
	kmovq	%k\n, %rax
	ret
	.endm
	.macro	ALL what, most
	.set	number, 0
	.rept	\most
	\what	%number
	.set	number, number+1
	.endr
	.endm

	BEGIN	dp_store_vector
	cmp	$1, %rsi
	ja	1f
	je	2f
	GO	3f
1:	GO	5f
2:	GO	4f
	.balign	STEP, 0xcc
3:	ALL	STORE_XMM, 16
	.balign	STEP, 0xcc
4:	ALL	STORE_YMM, 16
	.balign	STEP, 0xcc
5:	ALL	STORE_ZMM, 32
	END	dp_store_vector

	BEGIN	dp_mask_word
	GO	1f
	.balign	STEP, 0xcc
1:	ALL	MASK_WORD, 8
	END	dp_mask_word

	BEGIN	dp_mask_quad
	GO	1f
	.balign	STEP, 0xcc
1:	ALL	MASK_QUAD, 8
	END	dp_mask_quad

	.section .note.GNU-stack, "", @progbits
