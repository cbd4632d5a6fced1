/* Entries that compilers do not make, or seldom. odd.c calls them and knows
 * how often each is entered. */

#define FN(name) .globl name; .type name, @function; name: .cfi_startproc
#define END(name) .cfi_endproc; .size name, . - name
#define PAD .p2align 4

	.text

/* ---- short ones, padding behind them ---- */

	PAD
FN(odd_1byte)
	ret
END(odd_1byte)

	PAD
FN(odd_2bytes)
	rep ret
END(odd_2bytes)

	PAD
FN(odd_3bytes)
	nop
	nop
	ret
END(odd_3bytes)

	PAD
FN(odd_int3_padding)
	ret
END(odd_int3_padding)
	int3
	int3
	int3
	int3
	int3

/* No room: two functions in five bytes. */
	PAD
FN(odd_narrow)
	inc	%edi
	ret
END(odd_narrow)
FN(odd_narrow_next)
	lea	7(%rdi), %eax
	ret
END(odd_narrow_next)

/* ---- control falls from one into the next ---- */

	PAD
FN(odd_falls)
	lea	1(%rdi), %rdi
	test	%rdi, %rdi
END(odd_falls)
FN(odd_falls_on)
	lea	2(%rdi), %rdi
	test	%rdi, %rdi
END(odd_falls_on)
FN(odd_fallen_into)
	lea	(%rdi,%rdi), %rax
	ret
END(odd_fallen_into)

/* The same through padding. */
	PAD
FN(odd_falls_far)
	lea	3(%rdi), %rdi
	nop
END(odd_falls_far)
	PAD
FN(odd_fallen_into_far)
	lea	(%rdi,%rdi,2), %rax
	ret
END(odd_fallen_into_far)

/* ---- several entries in one body ---- */

/* odd_outer: edi times back to odd_outer_middle, which is a call of that only
 * from what is not its own body. */
	PAD
FN(odd_outer)
	xor	%eax, %eax
	lea	1(%rdi), %esi
	test	%edi, %edi
	js	odd_outer_middle	/* from the outer function's own part: a call */
	add	$1, %eax
	nop
	.globl	odd_outer_middle
	.type	odd_outer_middle, @function
odd_outer_middle:			/* by falling in: a call */
	add	$1, %esi
	add	$2, %eax
	dec	%edi
	jns	odd_outer_middle	/* of its own body: a loop */
	ret
	.size	odd_outer_middle, . - odd_outer_middle
END(odd_outer)

/* ---- loops to the entry ---- */

	PAD
FN(odd_loop_short)
1:	add	%edi, %eax
	dec	%edi
	jnz	1b
	ret
END(odd_loop_short)

/* Behind the endbr64, and to it. */
	PAD
FN(odd_loop_endbr)
	endbr64
1:	dec	%edi
	js	2f
	test	$1, %edi
	jz	1b
	jmp	odd_loop_endbr
2:	ret
END(odd_loop_endbr)

	PAD
FN(odd_loop_insn)
	lea	1(%rax), %rax
	loop	odd_loop_insn
	ret
END(odd_loop_insn)

/* Too long to be moved, with a near jump back: that jump is led past the
 * count. */
	PAD
FN(odd_loop_long)
	lea	1(%rax), %rax
	dec	%edi
	.fill	300, 1, 0x90
	jnz	odd_loop_long
	ret
END(odd_loop_long)

/* With a call it stays where it is, and a near jump can be led past. */
	PAD
FN(odd_loop_calls)
	push	%rdi
	call	odd_1byte
	pop	%rdi
	dec	%edi
	{disp32} jnz odd_loop_calls
	ret
END(odd_loop_calls)

/* A short one cannot. */
	PAD
FN(odd_loop_stuck)
.Lstuck:
	push	%rdi
	call	odd_1byte
	pop	%rdi
	dec	%edi
	jnz	.Lstuck
	ret
END(odd_loop_stuck)

/* Through a cold part, which belongs to the function. */
	PAD
FN(odd_loop_cold)
	dec	%edi
	jns	odd_loop_cold.cold
	ret
END(odd_loop_cold)
	.section .text.unlikely, "ax", @progbits
	.type	odd_loop_cold.cold, @function
odd_loop_cold.cold:
	.cfi_startproc
	lea	2(%rax,%rax), %eax
	lea	3(%rax,%rax), %eax
	jmp	odd_loop_cold
END(odd_loop_cold.cold)
	.text

/* By a table. */
	PAD
FN(odd_loop_table)
	lea	3f(%rip), %rdx
	dec	%edi
	js	2f
	mov	%edi, %eax
	and	$1, %eax
	movslq	(%rdx,%rax,4), %rax
	add	%rdx, %rax
	jmp	*%rax
1:	dec	%edi
	jns	1b
2:	ret
END(odd_loop_table)
	.section .rodata
	.p2align 2
3:	.long	odd_loop_table - 3b, 1b - 3b
	.text

/* A loop into the first five bytes. */
	PAD
FN(odd_loop_window)
	inc	%eax
1:	dec	%edi
	jnz	1b
	ret
END(odd_loop_window)

/* Calls of the entry from the body are calls. */
	PAD
FN(odd_recursive)
	dec	%edi
	jle	1f
	push	%rdi
	call	odd_recursive
	pop	%rdi
	call	odd_recursive
1:	ret
END(odd_recursive)

/* ---- entries that transfer control ---- */

	PAD
FN(odd_jmp)
	jmp	odd_fallen_into
END(odd_jmp)

	PAD
FN(odd_jmp_short)
	.byte	0xeb, odd_jmp_target - 1f
1:
END(odd_jmp_short)
	PAD
FN(odd_jmp_target)
	lea	9(%rdi), %rax
	ret
END(odd_jmp_target)

	PAD
FN(odd_jcc)
	jrcxz	odd_jcc_target
	xor	%eax, %eax
	ret
END(odd_jcc)
	PAD
FN(odd_jcc_target)
	mov	$5, %eax
	ret
END(odd_jcc_target)

	PAD
FN(odd_jcc_far)
	test	%edi, %edi
	jnz	odd_jcc_target
	xor	%eax, %eax
	ret
END(odd_jcc_far)

	PAD
FN(odd_jmp_bnd)
	.byte	0xf2
	jmp	odd_jmp_target
END(odd_jmp_bnd)

	PAD
FN(odd_jmp_memory)
	jmp	*odd_pointer(%rip)
END(odd_jmp_memory)

/* The callee looks at its return address. */
	PAD
FN(odd_call)
	call	odd_where
1:	lea	1b(%rip), %rcx
	sub	%rcx, %rax
	ret
END(odd_call)
	PAD
FN(odd_where)
	mov	(%rsp), %rax
	ret
END(odd_where)

	PAD
FN(odd_call_prefixed)
	.byte	0x67
	call	odd_where
1:	lea	1b(%rip), %rcx
	sub	%rcx, %rax
	ret
END(odd_call_prefixed)

	PAD
FN(odd_call_memory)
	call	*odd_where_pointer(%rip)
1:	lea	1b(%rip), %rcx
	sub	%rcx, %rax
	ret
END(odd_call_memory)

/* Returns into the first five bytes. */
	PAD
FN(odd_call_register)
	call	*%rdi
	ret
END(odd_call_register)

/* Enters another function by ret. */
	PAD
FN(odd_by_ret)
	lea	odd_jmp_target(%rip), %rax
	push	%rax
	ret
END(odd_by_ret)

/* A call of the next instruction enters nothing. */
	PAD
FN(odd_pc)
	call	1f
1:	pop	%rax
	lea	1b(%rip), %rcx
	sub	%rcx, %rax
	ret
END(odd_pc)

/* A jump table that leads on, into another function, and nowhere else. */
	PAD
FN(odd_table)
	lea	3f(%rip), %rdx
	and	$3, %edi
	movslq	(%rdx,%rdi,4), %rax
	add	%rdx, %rax
	notrack jmp *%rax
1:	mov	$11, %eax
	ret
2:	mov	$12, %eax
	ret
END(odd_table)
	.section .rodata
	.p2align 2
3:	.long	1b - 3b, 2b - 3b, odd_jmp_target - 3b, odd_1byte - 3b
	.text

/* ---- what an entry finds must be what the caller left ---- */

/* The carry flag is an argument. */
	PAD
FN(odd_carry)
	sbb	%eax, %eax
	nop
	nop
	nop
	ret
END(odd_carry)
	PAD
FN(odd_set_carry)
	stc
	call	odd_carry
	mov	%eax, %ecx
	clc
	call	odd_carry
	sub	%ecx, %eax
	ret
END(odd_set_carry)

/* The overflow flag, and all bits that lahf knows, through a jump. */
	PAD
FN(odd_flags)
	pushfq
	pop	%rax
	ret
END(odd_flags)
	PAD
FN(odd_flags_live)
	jo	1f
	mov	$0, %eax
	setc	%al
	ret
1:	mov	$2, %eax
	adc	$0, %eax
	ret
END(odd_flags_live)
	PAD
FN(odd_set_flags)
	mov	$0x7fffffff, %eax
	add	$1, %eax		/* overflow, no carry */
	call	odd_flags_live
	push	%rax
	mov	$0x80000000, %eax
	add	%eax, %eax		/* both */
	call	odd_flags_live
	pop	%rcx
	lea	(%rax,%rcx,8), %eax
	ret
END(odd_set_flags)

/* A leaf's data below the stack pointer survives a jump to another. */
	PAD
FN(odd_red_zone)
	mov	%rdi, -8(%rsp)
	mov	%rdi, -64(%rsp)
	mov	%rdi, -128(%rsp)
	stc
	jmp	odd_red_zone_end
END(odd_red_zone)
	PAD
FN(odd_red_zone_end)
	mov	$0, %eax
	adc	-8(%rsp), %rax
	add	-64(%rsp), %rax
	add	-128(%rsp), %rax
	ret
END(odd_red_zone_end)

/* Every register. odd_registers fills them, calls odd_keep, which stores them
 * at (%rsp)-relative places of its caller, and compares. rax: how many differ. */
	PAD
FN(odd_keep)
	mov	%rax, 8(%rsp)
	mov	%rcx, 16(%rsp)
	mov	%rdx, 24(%rsp)
	mov	%rbx, 32(%rsp)
	mov	%rbp, 40(%rsp)
	mov	%rsi, 48(%rsp)
	mov	%rdi, 56(%rsp)
	mov	%r8, 64(%rsp)
	mov	%r9, 72(%rsp)
	mov	%r10, 80(%rsp)
	mov	%r11, 88(%rsp)
	mov	%r12, 96(%rsp)
	mov	%r13, 104(%rsp)
	mov	%r14, 112(%rsp)
	mov	%r15, 120(%rsp)
	ret
END(odd_keep)
	PAD
FN(odd_registers)
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	sub	$136, %rsp
	mov	$0x1001, %rax
	mov	$0x1002, %rcx
	mov	$0x1003, %rdx
	mov	$0x1004, %rbx
	mov	$0x1005, %rbp
	mov	$0x1006, %rsi
	mov	$0x1007, %rdi
	mov	$0x1008, %r8
	mov	$0x1009, %r9
	mov	$0x100a, %r10
	mov	$0x100b, %r11
	mov	$0x100c, %r12
	mov	$0x100d, %r13
	mov	$0x100e, %r14
	mov	$0x100f, %r15
	call	odd_keep
	xor	%eax, %eax
	mov	$15, %ecx
1:	lea	0x1000(%rcx), %rdx
	cmp	%rdx, -8(%rsp,%rcx,8)
	je	2f
	inc	%eax
2:	dec	%ecx
	jnz	1b
	add	$136, %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret
END(odd_registers)

/* ---- operands relative to the instruction pointer ---- */

	PAD
FN(odd_rip_load)
	mov	odd_word(%rip), %rax
	ret
END(odd_rip_load)
	PAD
FN(odd_rip_compare)
	cmpl	$0x12345678, odd_word(%rip)
	sete	%al
	movzbl	%al, %eax
	call	odd_1byte
	ret
END(odd_rip_compare)
	PAD
FN(odd_rip_store)
	movq	$77, odd_scratch(%rip)
	mov	odd_scratch(%rip), %rax
	call	odd_1byte
	ret
END(odd_rip_store)
	PAD
FN(odd_rip_lea)
	lea	odd_rip_lea(%rip), %rax
	lea	1f(%rip), %rcx
	call	odd_1byte
1:	sub	%rcx, %rax
	ret
END(odd_rip_lea)

	.data
	.p2align 3
odd_word:
	.quad	0x12345678
odd_scratch:
	.quad	0
odd_pointer:
	.quad	odd_jmp_target
odd_where_pointer:
	.quad	odd_where

	.section .note.GNU-stack, "", @progbits
