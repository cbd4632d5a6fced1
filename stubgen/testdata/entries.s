# One function for each kind of entry in docs/architecture.md, "Entries". The
# comment over a function names its row; entries_test.go assembles this file
# and compares every plan and stub with entries.golden.
	.text
	.macro	FN name
	.globl	\name
	.type	\name, @function
\name:
	.endm
	.macro	END name
	.size	\name, . - \name
	.endm

# --- bodies that move whole ------------------------------------------------

# a leaf without anything to relocate
	.p2align 4
	FN leaf
	lea	1(%rdi), %rax
	ret
	END leaf

# shorter than the window, with padding behind it
	.p2align 4
	FN short_padded
	xor	%eax, %eax
	ret
	END short_padded

# RIP-relative operands, one with an immediate behind the displacement
	.p2align 4
	FN rip_relative
	movl	$7, data(%rip)
	addq	$0x12345678, data(%rip)
	lea	data(%rip), %rax
	ret
	END rip_relative

# jcc forward and back inside the body
	.p2align 4
	FN loop_inside
	xor	%eax, %eax
1:	add	%rdi, %rax
	dec	%rdi
	jnz	1b
	ret
	END loop_inside

# a branch target of its own inside the window
	.p2align 4
	FN own_target
	nop
1:	dec	%rdi
	jnz	1b
	mov	%rdi, %rax
	ret
	END own_target

# a loop back to the entry is no call
	.p2align 4
	FN entry_loop_short
	dec	%rdi
	jnz	entry_loop_short
	ret
	END entry_loop_short

# the same behind an endbr64, to the endbr64
	.p2align 4
	FN entry_loop_endbr
	endbr64
	dec	%rdi
	jnz	entry_loop_endbr
	ret
	END entry_loop_endbr

# loop, loope, jrcxz have short forms only; one leaves the body
	.p2align 4
	FN short_forms
	jrcxz	2f
1:	loop	1b
	loope	.Lnear
2:	ret
	END short_forms
	.p2align 4
	FN short_forms_next
	sub	$8, %rsp
	nop
.Lnear:
	call	outside
	add	$8, %rsp
	ret
	END short_forms_next

# falls through its end into the next function
	.p2align 4
	FN falls_through
	mov	$1, %eax
	END falls_through
	FN fallen_into
	mov	$2, %ecx
	ret
	END fallen_into

# a tail jump leaves the body
	.p2align 4
	FN tail_jump
	mov	$3, %edi
	jmp	outside
	END tail_jump

# flags set by the caller are read: kept
	.p2align 4
	FN flags_live
	mov	$0, %eax
	adc	%rdi, %rax
	ret
	END flags_live

# carry alone is live, but a later instruction reads zero
	.p2align 4
	FN flags_live_later
	jrcxz	1f
	mov	%rdi, %rax
1:	jz	outside
	ret
	END flags_live_later

# --- the jump tactic: a call keeps the body where it is ---------------------

# a common prologue
	.p2align 4
	FN prologue
	push	%rbp
	mov	%rsp, %rbp
	sub	$32, %rsp
	call	outside
	leave
	ret
	END prologue

# endbr64 stays; the window lies behind it
	.p2align 4
	FN endbr
	endbr64
	push	%rbx
	sub	$16, %rsp
	call	outside
	add	$16, %rsp
	pop	%rbx
	ret
	END endbr

# RIP-relative operand in the window
	.p2align 4
	FN window_rip
	cmpb	$0, data(%rip)
	call	outside
	ret
	END window_rip

# jcc in the window, short and near
	.p2align 4
	FN window_jcc
	test	%edi, %edi
	je	1f
	call	outside
1:	ret
	END window_jcc
	.p2align 4
	FN window_jcc_near
	test	%rdi, %rdi
	jne	outside
	call	outside
	ret
	END window_jcc_near

# jmp in the window
	.p2align 4
	FN window_jmp
	jmp	1f
	.skip	32, 0x90
1:	call	outside
	ret
	END window_jmp

# a direct call in the window: the original return address is pushed
	.p2align 4
	FN window_call
	sub	$8, %rsp
	call	outside
	add	$8, %rsp
	ret
	END window_call

# -pg -mfentry: the function starts with a call
	.p2align 4
	FN fentry
	call	outside
	push	%rbx
	call	outside
	pop	%rbx
	ret
	END fentry

# -fpatchable-function-entry: it starts with NOPs
	.p2align 4
	FN patchable
	.byte	0x90, 0x90, 0x90, 0x90, 0x90
	push	%rbx
	call	outside
	pop	%rbx
	ret
	END patchable

# indirect calls: register, memory, RIP-relative
	.p2align 4
	FN call_register
	mov	%rdi, %rax
	call	*%rax
	ret
	END call_register
	.p2align 4
	FN call_memory
	push	%rbx
	call	*0x118(%rdi)
	pop	%rbx
	ret
	END call_memory
	.p2align 4
	FN call_rip
	call	*data(%rip)
	ret
	END call_rip

# indirect jump: a tail call through a pointer
	.p2align 4
	FN jump_memory
	mov	(%rdi), %rax
	jmp	*0x10(%rax)
	END jump_memory

# ret inside the window, code behind it reached by nobody in the window
	.p2align 4
	FN window_ret
	test	%edi, %edi
	jne	1f
	ret
1:	call	outside
	ret
	END window_ret

# a loop back to the entry from far away: its rel32 is led past the count
	.p2align 4
	FN entry_loop_near
	push	%rbx
	mov	%rdi, %rbx
	.skip	200, 0x90
	call	outside
	pop	%rbx
	dec	%rdi
	jnz	entry_loop_near
	jmp	entry_loop_near
	END entry_loop_near

# variadic: AL holds the number of vector registers
	.p2align 4
	FN variadic
	sub	$0xd8, %rsp
	test	%al, %al
	je	1f
	movaps	%xmm0, 0x50(%rsp)
1:	call	outside
	add	$0xd8, %rsp
	ret
	END variadic

# a jump table that leads into the body, not into the window
	.p2align 4
	FN switch
	lea	table(%rip), %rdx
	movslq	(%rdx,%rdi,4), %rax
	add	%rdx, %rax
	jmp	*%rax
.Lcase0:
	mov	$1, %eax
	ret
.Lcase1:
	mov	$2, %eax
	ret
	END switch

# --- prefixed branches -------------------------------------------------------

# the linker relaxes call *GOT to 67 e8
	.p2align 4
	FN addr32_call
	.byte	0x67, 0xe8
	.long	outside - . - 4
	ret
	END addr32_call

# TLS: 66 66 48 e8
	.p2align 4
	FN tls_call
	.byte	0x66, 0x66, 0x48, 0xe8
	.long	outside - . - 4
	ret
	END tls_call

# bnd call and bnd jmp
	.p2align 4
	FN bnd_call
	bnd call outside
	ret
	END bnd_call
	.p2align 4
	FN bnd_jmp
	mov	%edi, %eax
	bnd jmp outside
	END bnd_jmp

# branch hints
	.p2align 4
	FN hinted
	test	%edi, %edi
	jne,pn	outside
	call	outside
	ret
	END hinted

# notrack indirect jump
	.p2align 4
	FN notrack_jump
	mov	%rdi, %rax
	notrack jmp *%rax
	END notrack_jump

# --- left alone, with a reason ----------------------------------------------

# no room: the next function follows at once
	.p2align 4
	FN too_short
	ret
	END too_short
	FN too_short_next
	mov	$1, %eax
	call	outside
	ret
	END too_short_next

# another entry inside the window
	.p2align 4
	FN two_entries
	mov	%edi, %eax
	FN second_entry
	add	$1, %eax
	call	outside
	ret
	END second_entry
	END two_entries

# a branch from another function into the window
	.p2align 4
	FN foreign_target
	push	%rbx
.Linside:
	mov	%rdi, %rbx
	call	outside
	pop	%rbx
	ret
	END foreign_target
	.p2align 4
	FN foreign_branch
	sub	$8, %rsp
	call	outside
	jmp	.Linside
	END foreign_branch

# a branch of its own into the window, and a call that keeps the body in place
	.p2align 4
	FN own_target_call
	push	%rbx
1:	mov	%rdi, %rbx
	call	outside
	test	%eax, %eax
	jne	1b
	pop	%rbx
	ret
	END own_target_call

# a jump table that leads into the window
	.p2align 4
	FN switch_window
	mov	%edi, %edi
.Linto:
	lea	table2(%rip), %rdx
	movslq	(%rdx,%rdi,4), %rax
	add	%rdx, %rax
	jmp	*%rax
	END switch_window

# a call whose return address would be overwritten
	.p2align 4
	FN return_inside
	call	*%rax
	nop
	nop
	nop
	nop
	call	outside
	ret
	END return_inside

# a short loop back to the entry of a function that cannot move
	.p2align 4
	FN entry_loop_call
	push	%rbx
	mov	%rdi, %rbx
	call	outside
	pop	%rbx
	dec	%rdi
	jnz	entry_loop_call
	ret
	END entry_loop_call

# AMD and Intel disagree about 66 e8
	.p2align 4
	FN opsize_call
	.byte	0x66, 0xe8
	.long	outside - . - 4
	ret
	END opsize_call

# a transaction's abort address
	.p2align 4
	FN transaction
	xbegin	1f
	xend
1:	call	outside
	ret
	END transaction

# the pushed return address would move the operand
	.p2align 4
	FN call_on_stack
	call	*8(%rsp)
	nop
	ret
	END call_on_stack

# a breakpoint at the entry
	.p2align 4
	FN breakpoint
	int3
	mov	%rdi, %rbx
	call	outside
	ret
	END breakpoint

# bytes that are no instruction
	.p2align 4
	FN garbage
	.byte	0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e
	call	outside
	ret
	END garbage

# the system call that makes threads
	.p2align 4
	FN clone_site
	mov	$56, %eax
	syscall
	ret
	END clone_site

# what everything calls; new functions go behind it, so that the distances are stable
	.p2align 4
	FN outside
	sub	$8, %rsp
	add	$8, %rsp
	ret
	END outside

# --- no free text in reach: neighbours' instructions are evicted --------------

	.p2align 4
	FN evict_wall
	.rept	60
	call	outside
	.endr
	jmp	outside
	END evict_wall

# something arrives in its window, and a hop finds its island in the next function
	FN evict_hop
	push	%rbx
	mov	%rdi, %rbx
.Lcalled:
	call	outside
	pop	%rbx
	jmp	outside
	END evict_hop

# only the second run is free of arrivals; the branch over it is none of them
	FN evict_host
	call	outside
	call	outside
	call	outside
	call	outside
	call	.Lcalled
	xor	%eax, %eax
1:	add	data(%rip), %rax
	jz	2f
	mov	%rax, 8(%rsp)
	mov	data(%rip), %rax
2:	js	1b
	call	outside
	jmp	outside
	END evict_host

# two short loops to the entry: one is evicted itself, the other behind a call
# leads by an island
	FN evict_leads
	sub	$24, %rsp
	mov	%rdi, 8(%rsp)
	call	outside
	call	outside
	call	outside
	call	outside
	mov	8(%rsp), %rax
	mov	%rax, 16(%rsp)
	call	outside
	dec	%rdi
	jnz	evict_leads
	call	outside
	js	evict_leads
	call	outside
	mov	$3, %eax
	mov	$4, %edi
	add	$24, %rsp
	jmp	outside
	END evict_leads
	FN evict_wall2
	.rept	60
	call	outside
	.endr
	jmp	outside
	END evict_wall2

# --- left alone, but for --allow-traps: no room, and none in reach ------------

# one byte
	FN trap_short
	ret
	END trap_short

# a call arrives between the two bytes of a hop
	FN trap_arrival
	push	%rbx
.Larrival:
	call	*data(%rip)
	pop	%rbx
	jmp	outside
	END trap_arrival

# the displaced instruction is a call, which comes back into the window
	FN trap_call
	call	*%rax
	call	outside
	jmp	outside
	END trap_call

# short loops to the entry, which a jump can patch
	FN trap_loop
	call	outside
	call	outside
	jnz	trap_loop
	call	outside
	loop	trap_loop
	jmp	outside
	END trap_loop
	FN trap_wall
	call	.Larrival
	.rept	60
	call	outside
	.endr
	jmp	outside
	END trap_wall

	.section .rodata
	.p2align 2
table:
	.long	.Lcase0 - table
	.long	.Lcase1 - table
table2:
	.long	.Linto - table2
	.long	0

	.data
	.globl	data
data:	.quad	0
	.section .note.GNU-stack, "", @progbits
