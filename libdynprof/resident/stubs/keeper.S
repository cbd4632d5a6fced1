/* The keeper stands between the callers of a redirected function and the new code,
 * where the function leaves registers alone that its callers rely on, or is called
 * with a stack that is not aligned (stubgen/keep/registers.go). Its keep block, to which
 * the stub's pointer leads, did
 *
 *	        push  code(%rip)
 *	        push  $what                     ; DP_KEEP_*
 *	        jmp   <the arena's jump to here>
 *
 * No register is free: arguments may be in any, and the callers' values. The frame is
 * of this thread's stack and known to unwinders, so that the new code may throw,
 * call the function itself again, be left by longjmp or be looked at:
 *
 *	rbp+40  stack arguments
 *	    32  return address
 *	    24  code
 *	    16  what
 *	     8  return address, again: by it and RBP unwinders without tables go on
 *	     0  rbp
 *	    -8  rax rcx rdx rsi rdi r8 r9 r10 r11
 *	   -88  xmm0 to xmm15, if vectors are kept; aligned, if the stack was
 *	  -392  zmm0 to zmm31, k0 to k7, if these are
 *	        stack arguments, if there are any
 */
#include "base/saved.h"
#include "stubs/keeper.h"

#define RAX -8
#define RCX -16
#define RDX -24
#define RSI -32
#define RDI -40
#define R8 -48
#define R9 -56
#define R10 -64
#define R11 -72
#define XMM(n) (-88 - 16 * n)
#define XMM_SIZE 256
#define ZMM(n) (-392 - 64 * n)
#define K(n) (-2384 - 8 * n)
#define WIDE_SIZE 2112
#define FRAME 16
#define WHAT (FRAME + DP_KEEP_WHAT_AT)
#define CODE (FRAME + DP_KEEP_CODE_AT)
#define RETURN (FRAME + DP_KEEP_RETURN_AT)

	.macro	EACH from, to, body:vararg
	.set	i, \from
	.rept	\to - \from + 1
	\body
	.set	i, i + 1
	.endr
	.endm

	.altmacro
	.macro	SAVE_XMM n
	movups	%xmm\n, XMM(\n)(%rbp)
	.endm
	.macro	LOAD_XMM n
	movups	XMM(\n)(%rbp), %xmm\n
	.endm
	.macro	SAVE_ZMM n
	vmovups	%zmm\n, ZMM(\n)(%rbp)
	.endm
	.macro	LOAD_ZMM n
	vmovups	ZMM(\n)(%rbp), %zmm\n
	.endm
	.macro	SAVE_YMM n
	vmovups	%ymm\n, ZMM(\n)(%rbp)
	.endm
	.macro	LOAD_YMM n
	vmovups	ZMM(\n)(%rbp), %ymm\n
	.endm
	.macro	SAVE_K n
	kmovq	%k\n, K(\n)(%rbp)
	.endm
	.macro	LOAD_K n
	kmovq	K(\n)(%rbp), %k\n
	.endm

	.text
	.hidden	dp_keeper, dp_keep_width
	.globl	dp_keeper
	.type	dp_keeper, @function
dp_keeper:
	.cfi_startproc
	.cfi_def_cfa rsp, DP_KEEP_RETURN_AT + 8
	push	DP_KEEP_RETURN_AT(%rsp)
	.cfi_adjust_cfa_offset 8
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbp, 0
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	PUSH_CALLER_SAVED
	and	$-16, %rsp
	cmpl	$0, WHAT(%rbp)
	jne	.Lmore
	call	*CODE(%rbp)
.Lback:
	mov	RCX(%rbp), %rcx
	mov	RSI(%rbp), %rsi
	mov	RDI(%rbp), %rdi
	mov	R8(%rbp), %r8
	mov	R9(%rbp), %r9
	mov	R10(%rbp), %r10
	mov	R11(%rbp), %r11
	mov	%rbp, %rsp
	.cfi_remember_state
	.cfi_def_cfa_register rsp
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore rbp
	lea	RETURN-8(%rsp), %rsp
	.cfi_adjust_cfa_offset -24
	ret
	.cfi_restore_state

	/* All registers are saved; those that are used here are loaded again. */
.Lmore:
	mov	WHAT(%rbp), %eax
	test	$(DP_KEEP_XMM0 | DP_KEEP_XMM1 | DP_KEEP_XMM2_7 | DP_KEEP_XMM8_15 | DP_KEEP_WIDE), %al
	jz	.Larguments
	lea	-XMM_SIZE(%rsp), %rsp
	EACH	0, 7, SAVE_XMM %i
	test	$DP_KEEP_XMM8_15, %al
	jz	1f
	EACH	8, 15, SAVE_XMM %i
1:	test	$DP_KEEP_WIDE, %al
	jz	.Larguments
	lea	-WIDE_SIZE(%rsp), %rsp
	cmpb	$1, dp_keep_width(%rip)
	jb	.Larguments
	ja	2f
	EACH	0, 15, SAVE_YMM %i
	jmp	.Larguments
2:	EACH	0, 31, SAVE_ZMM %i
	EACH	0, 7, SAVE_K %i

.Larguments:
	mov	%eax, %ecx
	shr	$DP_KEEP_STACK, %ecx
	jz	2f
	lea	1(%rcx), %edx
	and	$-2, %edx
	shl	$3, %edx
	sub	%rdx, %rsp
1:	mov	RETURN(%rbp,%rcx,8), %rax
	mov	%rax, -8(%rsp,%rcx,8)
	dec	%ecx
	jnz	1b
2:	mov	RAX(%rbp), %rax
	mov	RCX(%rbp), %rcx
	mov	RDX(%rbp), %rdx
	call	*CODE(%rbp)

	mov	WHAT(%rbp), %ecx
	test	$DP_KEEP_RAX, %cl
	jz	1f
	mov	RAX(%rbp), %rax
1:	test	$DP_KEEP_RDX, %cl
	jz	1f
	mov	RDX(%rbp), %rdx
1:	test	$DP_KEEP_WIDE, %cl
	jnz	.Lwide
.Lvectors:
	test	$DP_KEEP_XMM0, %cl
	jz	1f
	LOAD_XMM 0
1:	test	$DP_KEEP_XMM1, %cl
	jz	1f
	LOAD_XMM 1
1:	test	$DP_KEEP_XMM2_7, %cl
	jz	1f
	EACH	2, 7, LOAD_XMM %i
1:	test	$DP_KEEP_XMM8_15, %cl
	jz	.Lback
	EACH	8, 15, LOAD_XMM %i
	jmp	.Lback

.Lwide:
	cmpb	$1, dp_keep_width(%rip)
	jb	.Lvectors
	ja	2f
	test	$DP_KEEP_XMM0, %cl
	jz	1f
	LOAD_YMM 0
1:	test	$DP_KEEP_XMM1, %cl
	jz	1f
	LOAD_YMM 1
1:	EACH	2, 15, LOAD_YMM %i
	jmp	.Lback
2:	test	$DP_KEEP_XMM0, %cl
	jz	1f
	LOAD_ZMM 0
1:	test	$DP_KEEP_XMM1, %cl
	jz	1f
	LOAD_ZMM 1
1:	EACH	2, 31, LOAD_ZMM %i
	EACH	0, 7, LOAD_K %i
	jmp	.Lback
	.cfi_endproc
	.size	dp_keeper, . - dp_keeper

	.section .note.GNU-stack, "", @progbits
