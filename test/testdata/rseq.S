/* Restartable sequences (rseq(2)) that add 1 to a counter: int f(uint64_t offset,
 * volatile long *counter, const void *descriptor). The offset is that of rseq_cs
 * from the thread pointer. 1 is returned if that is done, 0 if the kernel has
 * interrupted the thread. */
	.macro	descriptor name
	.pushsection __rseq_cs, "aw"
	.balign	32
	.globl	\name
\name:	.long	0, 0
	.quad	1f, 2f-1f, 4f
	.popsection
	.endm

	.macro	sequence	/* long enough to be interrupted */
1:	mov	(%rsi), %rax
	mov	$100, %ecx
3:	dec	%ecx
	jnz	3b
	inc	%rax
	mov	%rax, (%rsi)
2:	mov	$1, %eax
	ret
	.byte	0x0f, 0xb9, 0x3d	/* ud1, with the signature */
	.long	0x53053053
4:	xor	%eax, %eax
	ret
	.endm

	.macro	function name
	.p2align 4
	.globl	\name
	.type	\name, @function
\name:	.cfi_startproc
	.endm

	.macro	end name
	.cfi_endproc
	.size	\name, .-\name
	.endm

	.text
	/* Small enough to run in its stub as a whole. */
	function rseq_small
	descriptor small_cs
	lea	small_cs(%rip), %rax
	mov	%rax, %fs:(%rdi)
	sequence
	end rseq_small

	/* The sequence begins inside the window. */
	function rseq_window
	descriptor window_cs
	mov	%rdx, %fs:(%rdi)
	sequence
	end rseq_window

	/* The sequence begins behind the instructions that a jump displaces. */
	function rseq_behind
	descriptor behind_cs
	nop
	mov	%rdx, %fs:(%rdi)
	sequence
	end rseq_behind

	/* A function of its own from where the sequence begins. */
	function rseq_head
	descriptor entry_cs
	lea	entry_cs(%rip), %rax
	mov	%rax, %fs:(%rdi)
	.cfi_endproc
	.size	rseq_head, .-rseq_head
	.globl	rseq_entry
	.type	rseq_entry, @function
rseq_entry:
	.cfi_startproc
	sequence
	end rseq_entry

	/* The abort handler lies inside the window of another function. */
	function rseq_far
	.pushsection __rseq_cs, "aw"
	.balign	32
far_cs:	.long	0, 0
	.quad	1f, 2f-1f, rseq_aborted+3
	.popsection
	lea	far_cs(%rip), %rax
	mov	%rax, %fs:(%rdi)
1:	mov	(%rsi), %rax
	mov	$100, %ecx
3:	dec	%ecx
	jnz	3b
	inc	%rax
	mov	%rax, (%rsi)
2:	mov	$1, %eax
	ret
	end rseq_far

	.byte	0x90
	.byte	0x53		/* the signature: it ends with the first 3 bytes of the function */
	.globl	rseq_aborted
	.type	rseq_aborted, @function
rseq_aborted:
	.cfi_startproc
	.byte	0x30, 0x05, 0x53
	xor	%eax, %eax
	ret
	.cfi_endproc
	.size	rseq_aborted, .-rseq_aborted

	.section .note.GNU-stack,"",@progbits
