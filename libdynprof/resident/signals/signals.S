/* Signal handlers. The kernel enters them at one of dp_handler_entries, put in
 * place of the program's at its sigaction (handlers.c), and mostly goes on to that at
 * once, with every argument and the stack as the kernel made them. Where it is
 * called, what comes between looks like a signal's frame to unwinders. */
#include <asm/unistd.h>

#include "base/saved.h"
#include "base/stub.h"
#include "signals/signals.h"

	.text
	.hidden	dp_handler_entries, dp_more_entry, dp_enter_handler, dp_handlers
	.hidden	dp_arrive, dp_depart, dp_moved, dp_behind_watched, dp_behind_shown
	.hidden	dp_return_site, dp_returns

/* The unwinder finds the interrupted registers in the context (DWARF 5, 6.4.2:
 * DW_CFA_def_cfa_expression, DW_CFA_expression; DW_OP_bregN with a two-byte
 * SLEB128 offset). The context's address is that of base plus off. */
#define SLEB(n) ((n) & 0x7f) | 0x80, (((n) >> 7) & 0x7f)
#define SAVED(reg, base, off, index) \
	.cfi_escape 0x10, reg, 3, 0x70 + base, SLEB((off) + DP_UC_GREGS + 8 * (index))
#define CONTEXT(base, off) \
	.cfi_escape 0x0f, 4, 0x70 + base, SLEB((off) + DP_UC_GREGS + 8 * DP_REG_RSP), 0x06; \
	SAVED(8, base, off, 0); SAVED(9, base, off, 1); SAVED(10, base, off, 2); SAVED(11, base, off, 3); \
	SAVED(12, base, off, 4); SAVED(13, base, off, 5); SAVED(14, base, off, 6); SAVED(15, base, off, 7); \
	SAVED(5, base, off, 8); SAVED(4, base, off, 9); SAVED(6, base, off, 10); SAVED(3, base, off, 11); \
	SAVED(1, base, off, 12); SAVED(0, base, off, 13); SAVED(2, base, off, 14); SAVED(7, base, off, 15); \
	SAVED(16, base, off, 16)

/* rdi: signal, rsi: siginfo_t, rdx: ucontext_t; rsp: the restorer's address, then
 * the context. Of the rest a function may change rax, rcx and r8 to r11. */
	.p2align 4
	.globl	dp_handler_entries
	.type	dp_handler_entries, @function
dp_handler_entries:
	.cfi_startproc simple
	.cfi_signal_frame
	CONTEXT(7, 8)
	.set	number, 0
	.rept	DP_HANDLERS
	.p2align 4
	lea	dp_handlers+8*number(%rip), %r11	/* its slot */
	jmp	.Larrive
	.set	number, number + 1
	.endr

	/* The restorer's address is that of a record: handler, restorer. */
	.p2align 4
	.globl	dp_more_entry
dp_more_entry:
	mov	(%rsp), %r11
	mov	8(%r11), %r10
	mov	%r10, (%rsp)
	jmp	.Larrive

	/* By a jump from a handler of ours, with the slot. */
	.p2align 4
	.globl	dp_enter_handler
dp_enter_handler:
	mov	%rcx, %r11

	/* The arguments are saved, since a handler may have been written in a
	 * language that takes more of them. */
.Larrive:
	push	%rbp
	CONTEXT(7, 16)
	mov	%rsp, %rbp
	CONTEXT(6, 16)
	sub	$DP_SHOWN_SIZE, %rsp
	push	%rdi
	push	%rsi
	push	%rdx
	push	%r11
	lea	32(%rsp), %rcx		/* struct dp_shown */
	and	$-16, %rsp
	call	dp_arrive
	lea	-DP_SHOWN_SIZE-32(%rbp), %rsp
	pop	%r11
	pop	%rdx
	pop	%rsi
	pop	%rdi
	cmp	$DP_SHOWN, %eax
	je	1f

	/* Not in code of ours: as if it had been entered by the kernel. */
	mov	(%rbp), %rbp
	.cfi_remember_state
	CONTEXT(7, DP_SHOWN_SIZE + 16)
	lea	DP_SHOWN_SIZE+8(%rsp), %rsp
	CONTEXT(7, 8)
	cmp	$DP_WATCHED, %eax
	je	4f
	xor	%eax, %eax
	jmp	*(%r11)

	/* Where contexts are switched what it leaves is looked at. It is entered with
	 * rsp 8 beyond a multiple of 16. */
4:	push	%rdx
	CONTEXT(7, 16)
	push	%rdx
	CONTEXT(7, 24)
	push	DP_UC_RIP(%rdx)
	CONTEXT(7, 32)
	xor	%eax, %eax
	call	*(%r11)
	.globl	dp_behind_watched	/* nobody else of ours calls the program's code */
dp_behind_watched:
	pop	%rax
	CONTEXT(7, 24)
	pop	%rdi
	CONTEXT(7, 16)
	cmp	DP_UC_RIP(%rdi), %rax
	jne	3f
	cmpl	$0, DP_UC_EFLAGS+4(%rdi)	/* a mark: another context, at the same address */
	je	2f
3:	call	dp_moved
2:	pop	%rdi
	CONTEXT(7, 8)
	ret
	.cfi_restore_state

1:	push	%rdx
	push	%rdx
	and	$-16, %rsp
	xor	%eax, %eax
	call	*(%r11)
	.globl	dp_behind_shown
dp_behind_shown:
	mov	-DP_SHOWN_SIZE-8(%rbp), %rdi	/* the context */
	lea	-DP_SHOWN_SIZE(%rbp), %rsi
	call	dp_depart
	mov	%rbp, %rsp
	pop	%rbp
	CONTEXT(7, 8)
	ret
	.cfi_endproc
	.size	dp_handler_entries, . - dp_handler_entries

/* A handler has returned to the program's restorer, a kernel site (kept.c): rsp leads to the
 * context, from which all registers come; rcx to the thunk's system call. That is made where the
 * program has it. */
	.globl	dp_return_site
	.type	dp_return_site, @function
dp_return_site:
	.cfi_startproc simple
	.cfi_signal_frame
	CONTEXT(7, 0)
	mov	%rsp, %rbp
	CONTEXT(6, 0)
	mov	-8(%rcx), %rbx		/* behind the program's system call */
	mov	%rsp, %rdi
	and	$-16, %rsp
	CLEAN_FLAGS
	call	dp_returns
	mov	%rbp, %rsp
	CONTEXT(7, 0)
	mov	$__NR_rt_sigreturn, %eax
	sub	$DP_THUNK_SYSCALL, %rbx
	jmp	*%rbx
	.cfi_endproc
	.size	dp_return_site, . - dp_return_site

/* Where the trap handler returns to: the bytes by which unwinders and
 * debuggers know a signal's frame (rt_sigreturn). No FDE may cover the byte in front. */
	nop
	.globl	dp_trap_return
	.type	dp_trap_return, @function
dp_trap_return:
	mov	$__NR_rt_sigreturn, %rax
	syscall
	.size	dp_trap_return, . - dp_trap_return

	.section .note.GNU-stack, "", @progbits
