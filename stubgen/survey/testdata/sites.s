# Kernel sites whose number is loaded further in front, and what only looks so.
	.macro	FN name
	.globl	\name
	.type	\name, @function
\name:
	.endm
	.macro	END name
	.size	\name, . - \name
	.endm

	.text
	.globl	_start
_start:
	ret

# two instructions, of which the last is enough
	.p2align 4
	FN site_last
	mov	$56, %eax
	mov	%rcx, %r10
	xor	%r8d, %r8d
	syscall
	ret
	END site_last

# an instruction of two bytes is not
	.p2align 4
	FN site_two
	mov	$435, %eax
	mov	8(%rsp), %rdi
	xor	%esi, %esi
	syscall
	ret
	END site_two

# the load itself is part of it
	.p2align 4
	FN site_load
	mov	$57, %eax
	xor	%edi, %edi
	syscall
	ret
	END site_load

# who jumps to its start may have a number of his own
	.p2align 4
	FN site_joined
	test	%edi, %edi
	jz	1f
	mov	$57, %eax
1:	mov	%rcx, %r10
	syscall
	ret
	END site_joined

# no watched number
	.p2align 4
	FN none_other
	mov	$39, %eax
	mov	%rcx, %r10
	syscall
	ret
	END none_other

# another number after all
	.p2align 4
	FN none_changed
	mov	$56, %eax
	mov	%edi, %eax
	mov	%rcx, %r10
	syscall
	ret
	END none_changed

# the system call is done again
	.p2align 4
	FN none_again
	mov	$56, %eax
	mov	%rcx, %r10
1:	syscall
	jc	1b
	ret
	END none_again

# an operand that does not run the same elsewhere
	.p2align 4
	FN none_relative
	mov	$56, %eax
	mov	_start(%rip), %rdi
	syscall
	ret
	END none_relative

# a call in between
	.p2align 4
	FN none_called
	mov	$56, %eax
	call	_start
	mov	%rcx, %r10
	syscall
	ret
	END none_called

# the ends of threads and processes: the number comes from another register
	.p2align 4
	FN site_end
	mov	$60, %edx
1:	xor	%edi, %edi
	mov	%edx, %eax
	syscall
	jmp	1b
	END site_end

# what follows moves, too
	.p2align 4
	FN site_exit
	mov	$231, %esi
	jmp	2f
1:	hlt
2:	mov	%esi, %eax
	syscall
	cmp	$-4096, %rax
	jbe	1b
	ret
	END site_exit

# but not what others jump to,
	.p2align 4
	FN none_behind
	mov	$231, %esi
	test	%edi, %edi
	jz	1f
	mov	%esi, %eax
	syscall
1:	cmp	$-4096, %rax
	ret
	END none_behind

# nor a jump
	.p2align 4
	FN none_jump
	mov	$231, %esi
1:	mov	%esi, %eax
	syscall
	jmp	1b
	END none_jump

# another register
	.p2align 4
	FN none_register
	mov	$60, %edx
	xor	%edi, %edi
	mov	%ecx, %eax
	syscall
	ret
	END none_register

# the entry is counted: what follows moves
	.p2align 4
	FN site_entry
	mov	$11, %eax
	syscall
	cmp	$-4095, %rax
	jae	1f
	ret
1:	hlt
	END site_entry

# unless somebody jumps there:
	.p2align 4
	FN site_inside
	mov	$10, %eax
1:	syscall
2:	cmp	$-4095, %rax
	je	2b
	ret
	END site_inside

# what only maps memory is none then,
	.p2align 4
	FN none_inside
	mov	$28, %eax
	syscall
1:	cmp	$-4095, %rax
	je	1b
	ret
	END none_inside

# nor where something else follows
	.p2align 4
	FN none_return
	mov	$11, %eax
	syscall
	ret
	END none_return

# musl's clone
	.p2align 4
	FN site_clone
	xor	%eax, %eax
	mov	$56, %al
	mov	%rdi, %r11
	mov	%rdx, %rdi
	mov	%r8, %rdx
	mov	%r9, %r8
	mov	8(%rsp), %r10
	mov	%r11, %r9
	and	$-16, %rsi
	sub	$8, %rsi
	mov	%rcx, (%rsi)
	syscall
	test	%eax, %eax
	jnz	1f
	xor	%ebp, %ebp
	pop	%rdi
	call	*%r9
1:	ret
	END site_clone

# and another number
	.p2align 4
	FN none_clone
	xor	%eax, %eax
	mov	$57, %al
	mov	%rcx, (%rsi)
	syscall
	test	%eax, %eax
	ret
	END none_clone

# musl's syscall, by any number
	.p2align 4
	FN site_given
	sub	$88, %rsp
	mov	%rdi, %rax
	mov	%r8, %r10
	mov	%rsi, 40(%rsp)
	lea	96(%rsp), %rsi
	mov	%rsi, 8(%rsp)
	lea	32(%rsp), %rdx
	mov	%rdx, 16(%rsp)
	mov	8(%rdx), %rdi
	movl	$8, (%rsp)
	mov	16(%rdx), %rsi
	mov	24(%rdx), %rdx
	syscall
	mov	%rax, %rdi
	call	none_given
	add	$88, %rsp
	ret
	END site_given

# not where another number comes in between
	.p2align 4
	FN none_given
	mov	%rdi, %rax
	mov	$39, %eax
	mov	24(%rdx), %rdx
	syscall
	mov	%rax, %rdi
	call	none_taken
	ret
	END none_given

# nor where threads can be cancelled: musl's are known by their addresses
	.p2align 4
	FN none_taken
	mov	%rdi, %rax
	mov	%rsi, %rdi
	mov	8(%rsp), %r9
	mov	%rcx, %rdx
	syscall
	ret
	END none_taken

# musl's mprotect: the arguments are computed behind the number
	.p2align 4
	FN site_sum
	mov	%rdi, %rax
	and	$-4096, %rdi
	movslq	%edx, %rdx
	mov	$10, %eax
	mov	%rdx, 8(%rsp)
	and	$-4096, %rsi
	sub	%rdi, %rsi
	syscall
	mov	%rax, %rdi
	ret
	END site_sum

# but not the number
	.p2align 4
	FN none_sum
	mov	$10, %eax
	add	%rdi, %rax
	sub	%rdi, %rsi
	syscall
	ret
	END none_sum

# the end of musl's threads
	.p2align 4
	FN site_wide
	mov	$60, %edx
	xor	%edi, %edi
	nopl	(%rax, %rax, 1)
1:	mov	%rdx, %rax
	syscall
	jmp	1b
	END site_wide

# dietlibc's, by any number
	.p2align 4
	FN site_unified
	mov	$0, %ah
	movzwl	%ax, %eax
	mov	%rcx, %r10
	syscall
	cmp	$-132, %rax
	ret
	END site_unified

# other ways to load a number
	.p2align 4
	FN site_quad
	nop
	mov	$57, %rax
	syscall
	ret
	END site_quad

	.p2align 4
	FN site_byte
	xor	%eax, %eax
	xor	%edi, %edi
	mov	$58, %al
	syscall
	ret
	END site_byte

	.p2align 4
	FN site_push
	push	$57
	pop	%rax
	xor	%edi, %edi
	syscall
	ret
	END site_push

# and other numbers
	.p2align 4
	FN none_byte
	mov	$0x100, %eax
	mov	$57, %al
	xor	%edi, %edi
	syscall
	ret
	END none_byte

	.p2align 4
	FN none_push
	push	$57
	push	%rdx
	pop	%rax
	xor	%edi, %edi
	syscall
	pop	%rax
	ret
	END none_push
