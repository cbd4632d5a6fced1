/* What the assembly saves, and loads again. */
#ifndef DYNPROF_SAVED_H
#define DYNPROF_SAVED_H

#include "base/sidestack.h"

/* Flags as the ABI wants them for C: forwards, and no trap at misaligned data
 * (AC), whatever the program has set. The stack is aligned. */
	.macro	CLEAN_FLAGS
	pushq	$0x202
	popfq
	.endm

/* To an unwinder what the thunk's jump leads to is called by the program: the address
 * behind its system call lies 8 bytes in front of `pass`, where rcx, r11 or a word of
 * the frame leads to. As DW_CFA_val_expression, of which the assembler knows nothing. */
#define HOME_OF_RCX 0x16, 16, 3, 0x72, 0x78, 0x06		/* rip = *(rcx - 8) */
#define HOME_OF_R11 0x16, 16, 3, 0x7b, 0x78, 0x06		/* rip = *(r11 - 8) */
#define HOME_OF_R8 0x16, 16, 3, 0x78, 0x78, 0x06		/* rip = *(r8 - 8) */
#define HOME_OF_RBP 0x16, 16, 3, 0x76, 0x78, 0x06		/* rip = *(rbp - 8) */
#define HOME_OF_PASSED 0x16, 16, 3, 0x72, 0x76, 0x06		/* rip = *(rcx - 10) */
#define HOME_OF_BELOW 0x16, 16, 6, 0x77, 0x68, 0x06, 0x3a, 0x1c, 0x06	/* rip = *(*(rsp - 24) - 10) */
#define HOME_OF_SAVED(cfa) 0x16, 16, 8, 0x0b, (cfa) & 0xff, ((cfa) >> 8) & 0xff, 0x22, 0x06, 0x38, 0x1c, 0x06 /* rip = *(*(cfa) - 8) */

/* On a stack of ours (sites/laststack.h): the program's rsp is at 24, r8 at 16. */
#define FRAME_OF_LAST_STACK 0x0f, 3, 0x77, 24, 0x06	/* CFA = *(rsp + 24) */
#define HOME_OF_LAST_STACK 0x16, 16, 6, 0x77, 16, 0x06, 0x38, 0x1c, 0x06	/* rip = *(*(rsp + 16) - 8) */

/* In a child that goes on by its birth record, which r15 leads to (rows/birth.h). */
#define FRAME_OF_BIRTH 0x0f, 3, 0x7f, 32, 0x06		/* CFA = *(r15 + DP_BIRTH_RSP) */
#define HOME_OF_BIRTH 0x16, 16, 6, 0x7f, 40, 0x06, 0x3a, 0x1c, 0x06	/* rip = *(*(r15 + DP_BIRTH_RESUME) - 10) */
#define R15_OF_BIRTH 0x10, 15, 2, 0x7f, 8		/* r15 at r15 + DP_BIRTH_R15 */
#define RBP_AT_RBP 0x10, 6, 2, 0x76, 0			/* rbp where it leads to */

/* Where the frame is told by rsp: a signal may strike between any two of them, and
 * its handler unwind. */
	.macro	SAVE what
	push	\what
	.cfi_adjust_cfa_offset 8
	.endm

	.macro	LOAD register
	pop	\register
	.cfi_adjust_cfa_offset -8
	.endm

	.macro	SAVE_FLAGS
	pushfq
	.cfi_adjust_cfa_offset 8
	.endm

	.macro	LOAD_FLAGS
	popfq
	.cfi_adjust_cfa_offset -8
	.endm

/* Beyond the red zone, and back; no flag changes. */
	.macro	LEAVE_RED_ZONE
	lea	-128(%rsp), %rsp
	.cfi_adjust_cfa_offset 128
	.endm

	.macro	TO_RED_ZONE
	lea	128(%rsp), %rsp
	.cfi_adjust_cfa_offset -128
	.endm

/* The arguments of a system call; rcx and r11 it overwrites. */
	.macro	SAVE_ARGUMENTS
	SAVE	%rdi
	SAVE	%rsi
	SAVE	%rdx
	SAVE	%r8
	SAVE	%r9
	SAVE	%r10
	.endm

	.macro	LOAD_ARGUMENTS
	LOAD	%r10
	LOAD	%r9
	LOAD	%r8
	LOAD	%rdx
	LOAD	%rsi
	LOAD	%rdi
	.endm

/* The general registers that a C function may change, where the frame is told by rbp. */
	.macro	PUSH_CALLER_SAVED
	push	%rax
	push	%rcx
	push	%rdx
	push	%rsi
	push	%rdi
	push	%r8
	push	%r9
	push	%r10
	push	%r11
	.endm

	.macro	POP_CALLER_SAVED
	pop	%r11
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rdi
	pop	%rsi
	pop	%rdx
	pop	%rcx
	pop	%rax
	.endm

/* Onto a stack of ours, and back (sidestack.h). */
	.hidden	dp_small_stacks, dp_side_stacks, dp_side_stacks_taken

/* rbp is what rsp was. Changes rax, rcx, rdx and flags. */
	.macro	TO_SIDE_STACK
	cmpb	$0, dp_small_stacks(%rip)
	je	8f
	mov	$DP_SIDE_STACK_WAITS, %edx
7:	mov	dp_side_stacks_taken(%rip), %eax
	not	%eax
	bsf	%eax, %ecx
	jz	9f
	lock bts %ecx, dp_side_stacks_taken(%rip)
	jc	7b
	lea	1(%rcx), %eax
	shl	$DP_SIDE_STACK_SHIFT, %eax
	lea	dp_side_stacks(%rip), %rdx
	lea	(%rdx, %rax), %rsp
	jmp	8f
9:	pause
	dec	%edx
	jnz	7b
8:
	.endm

/* rsp becomes rbp. Changes rcx, rdx and flags. */
	.macro	FROM_SIDE_STACK
	lea	dp_side_stacks+1(%rip), %rcx
	mov	%rsp, %rdx
	sub	%rcx, %rdx
	mov	%rbp, %rsp
	shr	$DP_SIDE_STACK_SHIFT, %rdx
	cmp	$DP_SIDE_STACKS, %rdx
	jae	8f
	lock btr %edx, dp_side_stacks_taken(%rip)
8:
	.endm

#endif
