/* What the assembly saves, and loads again. */
#ifndef DYNPROF_SAVED_H
#define DYNPROF_SAVED_H

/* Flags as the ABI wants them for C: forwards, and no trap at misaligned data
 * (AC), whatever the program has set. The stack is aligned. */
	.macro	CLEAN_FLAGS
	pushq	$0x202
	popfq
	.endm

/* The arguments of a system call; rcx and r11 it overwrites. */
	.macro	PUSH_ARGUMENTS
	push	%rdi
	push	%rsi
	push	%rdx
	push	%r8
	push	%r9
	push	%r10
	.endm

	.macro	POP_ARGUMENTS
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rdx
	pop	%rsi
	pop	%rdi
	.endm

/* The general registers that a C function may change. */
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

#endif
