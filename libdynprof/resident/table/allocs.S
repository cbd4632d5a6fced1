/* A function that hands out blocks, or takes them back, is called. In front of it a thunk in
 * the arena (stubgen/emit/allocator.go) did
 *
 *	        mov   %rax, -16(%rsp)		; nobody's: the red zone of who is entered
 *	        lea   <itself>(%rip), %rax
 *	        jmp   *<its first word>
 *
 * and behind that, DP_ALLOC_BODY bytes from its beginning, the function goes on. Most calls are
 * led there at once, with all registers and the stack as they were. What is of an allocation
 * site is called from here, as what it returns has to be known; again registers are as it has
 * left them. The frame is a struct call of allocs.c.
 */
#include "base/stub.h"

	.text
	.hidden	dp_allocator, dp_alloc_before, dp_alloc_after
	.globl	dp_allocator
	.type	dp_allocator, @function

#define RAX -8
#define BODY -16

	.macro SAVE_SCRATCH
	mov	%rdi, -24(%rbp)
	mov	%rsi, -32(%rbp)
	mov	%rdx, -40(%rbp)
	mov	%rcx, -48(%rbp)
	mov	%r8, -56(%rbp)
	mov	%r9, -64(%rbp)
	mov	%r10, -72(%rbp)
	mov	%r11, -80(%rbp)
	.endm

	.macro RESTORE_SCRATCH
	mov	-24(%rbp), %rdi
	mov	-32(%rbp), %rsi
	mov	-40(%rbp), %rdx
	mov	-48(%rbp), %rcx
	mov	-56(%rbp), %r8
	mov	-64(%rbp), %r9
	mov	-72(%rbp), %r10
	mov	-80(%rbp), %r11
	mov	RAX(%rbp), %rax
	.endm

dp_allocator:
	.cfi_startproc
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	lea	-128(%rsp), %rsp
	mov	%rax, BODY(%rbp)
	SAVE_SCRATCH
	mov	%rsp, %rdi
	lea	2f(%rip), %rsi
	call	dp_alloc_before
	test	%eax, %eax
	jnz	1f
	RESTORE_SCRATCH
	leave
	.cfi_remember_state
	.cfi_def_cfa rsp, 8
	.cfi_restore rbp
	jmp	*BODY-8(%rsp)
	.cfi_restore_state
1:	RESTORE_SCRATCH
	call	*BODY(%rbp)
2:
	mov	%rax, RAX(%rbp)
	SAVE_SCRATCH
	mov	%rsp, %rdi
	call	dp_alloc_after
	RESTORE_SCRATCH
	leave
	.cfi_def_cfa rsp, 8
	.cfi_restore rbp
	ret
	.cfi_endproc
	.size	dp_allocator, . - dp_allocator

	.section .note.GNU-stack, "", @progbits
