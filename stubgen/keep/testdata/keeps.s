# Functions, and what code in their place has to keep (registers_test.go): the line
# "# keeps" in front of a label.

	.text
	.macro	FN name
	.p2align 4
	.globl	\name
	.type	\name, @function
\name:
	.endm
	.macro	END name
	.size	\name, . - \name
	.endm

# What no code behind a call reads: it has all been written again.
	.macro	CLEAN
	.irp	r, eax, ecx, edx, esi, edi, r8d, r9d, r10d
	xor	%\r, %\r
	.endr
	.irp	r, 0, 1, 2, 3, 4, 5, 6, 7
	vpxor	%xmm\r, %xmm\r, %xmm\r
	.endr
	.endm

# Of the results only rax may be one.
	.macro	RETURN
	xor	%edx, %edx
	vpxor	%xmm0, %xmm0, %xmm0
	vpxor	%xmm1, %xmm1, %xmm1
	ret
	.endm

# keeps nothing
FN outside
	sub	$8, %rsp
	call	relies
	CLEAN
	call	in_turn
	CLEAN
	call	reads_ymm
	CLEAN
	call	shifts
	CLEAN
	call	gives_stack
	CLEAN
	call	by_table
	CLEAN
	call	foreign_results
	CLEAN
	call	loops
	CLEAN
	call	void_result
	CLEAN
	call	gives_argument
	CLEAN
	xor	%edi, %edi
	mov	$60, %eax
	syscall
	hlt
END outside

# keeps r8 xmm5
FN leaf
	lea	(%rdi,%rsi), %rax
	ret
END leaf

# keeps nothing: all that its caller reads behind it is its result, or written again
FN quiet
	lea	(%rdi,%rsi), %rax
	mov	%eax, %r9d
	ret
END quiet

# keeps nothing: it may run anything
FN unseen
	sub	$8, %rsp
	CLEAN
	call	*pointer(%rip)
	add	$8, %rsp
	RETURN
END unseen

# keeps nothing: nobody relies on it
FN relies
	sub	$8, %rsp
	mov	$1, %r8d
	pxor	%xmm5, %xmm5
	mov	$2, %edi
	call	leaf
	add	%r8, %rax
	addsd	%xmm5, %xmm5
	CLEAN
	mov	$1, %r9d
	call	quiet
	CLEAN
	mov	$3, %r8d
	add	%r8, %rax
	CLEAN
	mov	$4, %r9d
	call	unseen
	add	$8, %rsp
	RETURN
END relies

# keeps rdx r10 xmm0 xmm1: middle may return rdx, xmm0 and xmm1
FN inner
	mov	%rdi, %rax
	mov	%rdi, %rcx
	ret
END inner

# keeps r10
FN middle
	sub	$8, %rsp
	call	inner
	add	$8, %rsp
	ret
END middle

# keeps r10: who jumps to it has a caller that relies on r10
FN end_of_jump
	mov	%rdi, %rax
	ret
END end_of_jump

# keeps r10
FN jumps
	mov	$1, %edi
	jmp	end_of_jump
END jumps

# keeps nothing
FN in_turn
	sub	$8, %rsp
	mov	$5, %r10d
	mov	$6, %ecx
	call	middle
	call	jumps
	add	%r10, %rax
	add	$8, %rsp
	RETURN
END in_turn

# keeps ymm3 k2 zmm20
FN below_ymm
	addss	%xmm1, %xmm0
	ret
END below_ymm

# keeps nothing
FN reads_ymm
	sub	$8, %rsp
	vmovups	bytes(%rip), %ymm3
	vmovups	bytes(%rip), %zmm20
	kmovq	%rdi, %k2
	call	below_ymm
	vaddps	%ymm3, %ymm3, %ymm4
	vaddps	%zmm20, %zmm20, %zmm21{%k2}{z}
	vmovups	%ymm4, bytes(%rip)
	vmovups	%zmm21, bytes(%rip)
	vzeroupper
	xor	%eax, %eax
	add	$8, %rsp
	RETURN
END reads_ymm

# keeps align
FN shifted
	jmp	shifted_too
END shifted

# keeps align
FN shifted_too
	mov	$1, %eax
	ret
END shifted_too

# keeps nothing
FN shifts
	call	shifted
	RETURN
END shifts

# keeps rdi r11, 3 words
FN stack
	push	%rbx
	mov	16(%rsp), %rax
	mov	24(%rsp), %rbx
	add	%rbx, %rax
	pop	%rbx
	ret
END stack

# keeps rdi r11, 2 words
FN stack_frame
	push	%rbp
	mov	%rsp, %rbp
	and	$-64, %rsp
	sub	$64, %rsp
	mov	16(%rbp), %rax
	mov	8(%rsp), %rdx
	leave
	ret
END stack_frame

# keeps r11, any words
FN stack_address
	lea	8(%rsp), %rax
	add	(%rax), %rdi
	ret
END stack_address

# keeps nothing
FN gives_stack
	sub	$24, %rsp
	mov	$1, %r11d
	movq	$1, (%rsp)
	movq	$2, 8(%rsp)
	call	stack
	call	stack_frame
	call	stack_address
	add	%r11, %rax
	add	$24, %rsp
	RETURN
END gives_stack

# keeps rdi r9: one of the cases reads r9
FN before_table
	mov	%rdi, %rax
	ret
END before_table

# keeps nothing
FN by_table
	sub	$8, %rsp
	call	*pointer(%rip)
	mov	$7, %r9d
	mov	$1, %edi
	call	before_table
	vpxor	%xmm0, %xmm0, %xmm0
	vpxor	%xmm1, %xmm1, %xmm1
	lea	table(%rip), %rdx
	movslq	(%rdx,%rdi,4), %rcx
	add	%rdx, %rcx
	jmp	*%rcx
.Lcase1:	mov	%r9, %rax
.Lcase2:	add	$8, %rsp
	RETURN
END by_table

# keeps custom: an argument in rbx
FN takes_rbx
	mov	%rbx, %rax
	ret
END takes_rbx

# keeps custom: and flags
FN takes_carry
	adc	%rdi, %rdi
	mov	%rdi, %rax
	ret
END takes_carry

# keeps custom: a result in rcx
FN gives_rcx
	mov	%rdi, %rcx
	ret
END gives_rcx

# keeps custom: and in flags
FN gives_carry
	add	%rdi, %rdi
	ret
END gives_carry

# keeps custom: it does not give rbx back
FN spoils
	mov	%rdi, %rbx
	mov	%rbx, %rax
	ret
END spoils

# keeps nothing
FN foreign_results
	push	%rbx
	mov	$1, %ebx
	call	takes_rbx
	CLEAN
	call	gives_rcx
	add	%rcx, %rax
	call	gives_carry
	adc	$0, %rax
	CLEAN
	call	spoils
	CLEAN
	call	takes_carry
	pop	%rbx
	RETURN
END foreign_results

# keeps nothing: it saves rbx first
FN saves
	push	%rbx
	mov	%rdi, %rbx
	mov	%rbx, %rax
	pop	%rbx
	ret
END saves

# keeps rdx: the loop reads it, the code behind the call does not
FN in_loop
	mov	%rdi, %rax
	ret
END in_loop

# keeps nothing
FN loops
	push	%rbx
	mov	$3, %ebx
	mov	$1, %edx
	jmp	2f
1:	mov	%rdx, %rdi
	inc	%rdx
2:	call	in_loop
	dec	%ebx
	jnz	1b
	CLEAN
	call	saves
	pop	%rbx
	RETURN
END loops

# keeps rax
FN void
	mov	%rdi, bytes(%rip)
	ret
END void

# keeps nothing
FN void_result
	sub	$8, %rsp
	mov	$5, %eax
	call	void
	add	$8, %rsp
	RETURN
END void_result

# keeps rsi: the next function reads it
FN first
	mov	%rdi, %rax
	ret
END first

# keeps nothing
FN second
	lea	(%rax,%rsi), %rax
	ret
END second

# keeps nothing
FN gives_argument
	sub	$8, %rsp
	mov	$1, %esi
	call	first
	call	second
	add	$8, %rsp
	RETURN
END gives_argument

	.section .rodata
table:	.long	.Lcase1 - table, .Lcase2 - table
	.data
pointer: .quad	unseen
bytes:	.zero	64
