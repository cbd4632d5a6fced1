/* The rare paths that generated code jumps to: a clone site and a threshold.
 * Every register but those the system call clobbers is as it was when they
 * are done. Nothing below the red zone of the code they came from is touched.
 */
#include "birth.h"

#define SYS_arch_prctl 158
#define ARCH_SET_GS 0x1001

/* Flags as the ABI wants them for C: forwards, and no trap at misaligned data
 * (AC), whatever the program has set. The stack is aligned. */
	.macro	CLEAN_FLAGS
	pushq	$0x202
	popfq
	.endm

	.text
	.hidden	dp_cold, dp_clone_site, dp_birth, dp_birth_done, dp_forked, dp_cross, dp_have_wrgsbase

/* A clone site: a thunk in the arena, in place of `mov $NR,%eax` before a
 * syscall, did
 *
 *	        mov   $NR,%eax
 *	        lea   pass(%rip),%rcx
 *	        jmp   *dp_clone_site
 *	pass:   mov   $NR,%eax
 *	        syscall
 *	        jmp   <behind the original syscall>
 *
 * rax, rcx and r11 are free: the system call overwrites them.
 *
 *  1. The parent takes a row and writes a birth record (dp_birth), whose
 *     address goes to r15, which survives the system call in both.
 *  2. The child's first act is to set its GS base, from the record: with
 *     wrgsbase no system call, so no seccomp filter sees one.
 *  3. Only then may a counted function run in the child: a fork has all
 *     signals blocked meanwhile; libc blocks them around pthread_create.
 */
	.globl	dp_clone_site
	.type	dp_clone_site, @function
dp_clone_site:
	.cfi_startproc
	.cfi_undefined rip
	lea	-128(%rsp), %rsp
	push	$0			/* sigmask */
	pushfq
	push	%rcx
	push	%rax
	push	%rdi
	push	%rsi
	push	%rdx
	push	%r8
	push	%r9
	push	%r10
	push	%r15
	push	%rbp
	mov	%rsp, %rdi
	mov	%rsp, %rbp
	and	$-16, %rsp
	CLEAN_FLAGS
	call	dp_birth
	mov	%rbp, %rsp
	mov	%rax, %r15
	test	%rax, %rax
	jz	.Lleave
	call	.Lload			/* rsp: struct dp_regs */
	mov	DP_REGS_RAX(%rsp), %rax
	syscall
	mov	%rax, %rcx
	jrcxz	.Lchild

	/* Parent. */
	mov	%rax, DP_REGS_RAX(%rsp)
	mov	%rsp, %rsi
	mov	%r15, %rdi
	mov	%rsp, %rbp
	and	$-16, %rsp
	CLEAN_FLAGS
	call	dp_birth_done
	mov	%rbp, %rsp
	addq	$DP_THUNK_SYSCALL, DP_REGS_RCX(%rsp)
	jmp	.Lleave

	/* Without a record rcx still leads to the thunk's own system call. */
.Lleave:
	call	.Lload
	mov	DP_REGS_R15(%rsp), %r15
	mov	DP_REGS_RAX(%rsp), %rax
	mov	DP_REGS_RCX(%rsp), %rcx
	lea	DP_REGS_SIZE+128(%rsp), %rsp
	jmp	*%rcx

	/* Loads all saved registers but r15, rax and rcx. rsp: return address,
	 * then struct dp_regs. */
.Lload:
	mov	8+DP_REGS_RBP(%rsp), %rbp
	mov	8+DP_REGS_R10(%rsp), %r10
	mov	8+DP_REGS_R9(%rsp), %r9
	mov	8+DP_REGS_R8(%rsp), %r8
	mov	8+DP_REGS_RDX(%rsp), %rdx
	mov	8+DP_REGS_RSI(%rsp), %rsi
	mov	8+DP_REGS_RDI(%rsp), %rdi
	push	8+DP_REGS_FLAGS(%rsp)
	popfq
	ret

	/* Child: r15 is the birth record, rsp a stack of its own or, after a
	 * fork, where the parent's was. */
.Lchild:
	mov	DP_BIRTH_GS(%r15), %rcx
	cmpb	$0, dp_have_wrgsbase(%rip)
	je	1f
	wrgsbase %rcx
	jmp	2f
1:	mov	$ARCH_SET_GS, %edi
	mov	%rcx, %rsi
	mov	$SYS_arch_prctl, %eax
	syscall
	mov	DP_BIRTH_RDI(%r15), %rdi
	mov	DP_BIRTH_RSI(%r15), %rsi
2:	cmpq	$0, DP_BIRTH_FORK(%r15)
	je	3f
	push	%rdi
	push	%rsi
	push	%rdx
	push	%r8
	push	%r9
	push	%r10
	push	%rbp
	mov	%r15, %rdi
	mov	%rsp, %rbp
	and	$-16, %rsp
	CLEAN_FLAGS
	call	dp_forked
	mov	%rbp, %rsp
	pop	%rbp
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rdx
	pop	%rsi
	pop	%rdi
3:	push	DP_BIRTH_FLAGS(%r15)
	popfq
	mov	DP_BIRTH_RSP(%r15), %rcx
	jrcxz	4f
	mov	%rcx, %rsp
4:	mov	DP_BIRTH_RESUME(%r15), %rcx
	mov	DP_BIRTH_R15(%r15), %r15
	mov	$0, %eax
	jmp	*%rcx
	.cfi_endproc
	.size	dp_clone_site, . - dp_clone_site

/* A threshold's cold path. A cold block did
 *
 *	        lea   -128(%rsp),%rsp
 *	        push  $counter
 *	        call  <the arena's jump to here>
 *
 * The caller keeps no flags over a count, but those of dp_cross's own are
 * harmless: every register is kept.
 */
	.globl	dp_cold
	.type	dp_cold, @function
dp_cold:
	.cfi_startproc
	.cfi_undefined rip
	pushfq
	push	%rax
	push	%rcx
	push	%rdx
	push	%rsi
	push	%rdi
	push	%r8
	push	%r9
	push	%r10
	push	%r11
	push	%rbp
	mov	96(%rsp), %edi		/* 11 registers, the return address, the counter */
	mov	%rsp, %rbp
	and	$-16, %rsp
	CLEAN_FLAGS
	call	dp_cross
	mov	%rbp, %rsp
	pop	%rbp
	pop	%r11
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rdi
	pop	%rsi
	pop	%rdx
	pop	%rcx
	pop	%rax
	popfq
	ret
	.cfi_endproc
	.size	dp_cold, . - dp_cold

	.section .note.GNU-stack, "", @progbits
