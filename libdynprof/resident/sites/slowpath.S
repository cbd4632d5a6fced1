/* The rare paths that generated code jumps to: a kernel site and a threshold.
 * Every register but those the system call clobbers is as it was when they
 * are done. Nothing below the red zone of the code they came from is touched.
 */
#include <asm/prctl.h>

#include "base/context.h"
#include "base/saved.h"
#include "base/stub.h"
#include "rows/birth.h"
#include "sites/laststack.h"
#include "sites/watched.h"

#define MAP_PRIVATE_ANONYMOUS 0x22
#define MAP_PRIVATE_FILE 2
#define MAP_SHARED_FILE 1
#define MAP_THREAD_STACK 0x20022
#define MADV_DONTNEED 4
#define MADV_DONTNEED_LOCKED 24
#define MADV_GUARD_INSTALL 102
#define DP_NR_rt_sigprocmask 14
#define EFAULT 14
#define SIG_SETMASK 2
#define TRAP_FLAG 0x100
#define UNCLEAN_FLAGS 0x40500 /* of traps, direction, alignment */

	.text
	.hidden	dp_cold, dp_record_access, dp_record, dp_form_access, dp_kernel_site, dp_action_site, dp_before, dp_after, dp_forked, dp_cross, dp_moved, dp_have_wrgsbase, dp_withdrawn
	.hidden	dp_signal_site, dp_signal, dp_transfer_site, dp_transferred, dp_texts_far
	.hidden	dp_filters, dp_forbidden, dp_side, dp_inside, dp_thread_ends, dp_last_stacks, dp_last_stacks_taken

/* A kernel site: a thunk in the arena, in place of the setup, the instructions in
 * front of a syscall, did
 *
 *	        <setup>
 *	        lea   pass(%rip),%rcx
 *	        jmp   *dp_kernel_site
 *	        .quad <behind the original syscall>
 *	pass:   syscall
 *	        lea   <behind the original syscall>(%rip),%rcx
 *	        jmp   <behind the original syscall>
 *
 * rax is the system call's number. rcx and r11 are free: the system call
 * overwrites them. libc's syscall(3) comes here with any number.
 *
 * A thread or process is made:
 *  1. The parent takes a row and writes a birth record (dp_before), whose
 *     address goes to r15, which survives the system call in both.
 *  2. The child's first act is to set its GS base, from the record: with
 *     wrgsbase no system call, so no seccomp filter sees one.
 *  3. Only then may a counted function run in the child: a fork has all
 *     signals blocked meanwhile; libc blocks them around pthread_create.
 *
 * A context is resumed by the program itself, not by a handler's return: what it
 * names of the program's code goes on in copies, as there (signals.c).
 *
 * A program is executed: dp_before may give it another environment (successor.c).
 *
 * A filter is installed, or the GS base asked for or set: dp_before readies us
 * for it, dp_after learns of the result (filters.c, gs.c). A thread or process ends,
 * or a child runs on its parent's stack: dp_before learns of it (ends.c).
 * Text becomes writable: dp_before gives it back first (giveback.c). Or other memory
 * takes its place, or none (replaced.c); these calls are frequent, and come first.
 * All memory is locked: dp_before does it (lock.c). Address space is limited, or is asked for
 * its limit: dp_before does it (rows/space.c).
 */
/* Where nothing may be written to the program's stack, as it may have given it away or
 * have put something else there, C runs on a stack of ours:
 *  1. No filter is in force, nor comes one: the thread has entered (filters.c).
 *  2. Signals are blocked, as a handler would run on the stack of 3.
 *  3. One of some stacks is taken (ends.c).
 * All else is else's: behind a filter, in single steps, which kill where signals are
 * blocked, and with -EFAULT in eax where mask cannot be read. Of the registers callees' are kept, r8 and the upper half of r9. */
	.macro	LEAVE_SIDE
	mov	%r9d, %ecx
	lea	dp_inside(%rip), %rdx
	lock decl (%rdx, %rcx, 4)
	.endm

	.macro	CALL_ON_STACK_OF_OURS function, mask, else, none
	mov	dp_side(%rip), %ecx
	and	$1, %ecx
	or	%rcx, %r9
	lea	dp_inside(%rip), %rdx
	lock incl (%rdx, %rcx, 4)
	mov	dp_filters(%rip), %rcx
	mov	dp_forbidden(%rip), %eax
	or	%rax, %rcx
	jnz	1f
	mov	$-1, %edi		/* no way to change a mask: it is only read */
	lea	\mask, %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	mov	$DP_NR_rt_sigprocmask, %eax
	syscall				/* r11: the flags */
	test	$TRAP_FLAG, %r11d
	jnz	1f
	cmp	$-EFAULT, %eax
	jne	2f
1:	LEAVE_SIDE
	jmp	\else
2:	mov	$SIG_SETMASK, %edi
	lea	.Lall_but_sigsys(%rip), %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	mov	$DP_NR_rt_sigprocmask, %eax
	syscall
	LEAVE_SIDE
3:	mov	dp_last_stacks_taken(%rip), %eax
	not	%eax
	bsf	%eax, %ecx
	jz	\none
	lock bts %ecx, dp_last_stacks_taken(%rip)
	jc	3b
	lea	1(%rcx), %eax
	shl	$DP_LAST_STACK_SHIFT, %eax
	lea	dp_last_stacks(%rip), %rdx
	add	%rax, %rdx
	mov	%rsp, -8(%rdx)
	mov	%r8, -16(%rdx)
	mov	%r9, -24(%rdx)
	mov	%rcx, -32(%rdx)
	lea	-32(%rdx), %rsp
	.cfi_remember_state
	.cfi_escape FRAME_OF_LAST_STACK
	.cfi_escape HOME_OF_LAST_STACK
	CLEAN_FLAGS
	mov	24(%rsp), %rdi		/* the program's rsp */
	call	\function
	mov	(%rsp), %rcx
	mov	8(%rsp), %r9
	mov	16(%rsp), %r8
	mov	24(%rsp), %rsp
	.cfi_restore_state
	lock btr %ecx, dp_last_stacks_taken(%rip)
	.endm

#define GO_IF(name, number) lea -number(%rax), %ecx; jrcxz .Lnear;
	.globl	dp_kernel_site
	.type	dp_kernel_site, @function
dp_kernel_site:
	.cfi_startproc
	.cfi_def_cfa rsp, 0
	.cfi_escape HOME_OF_RCX
	mov	%rcx, %r11		/* no flag changes */
	.cfi_escape HOME_OF_R11
	mov	dp_withdrawn(%rip), %rcx
	jrcxz	1f
	jmp	.Lwatched		/* all are made where the program has them */
1:	lea	-DP_NR_mmap(%rax), %ecx
	jrcxz	.Lmap
	lea	-DP_NR_munmap(%rax), %ecx
	jrcxz	.Lunmap
	lea	-DP_NR_madvise(%rax), %ecx
	jrcxz	.Ladvice
	lea	-DP_NR_mremap(%rax), %ecx
	jrcxz	2f
	jmp	.Llimits
2:	jmp	.Lwatched

	/* With the flags that most have an mmap takes nobody's place. */
.Lmap:	mov	dp_files_are(%rip), %ecx
	jrcxz	1f
	jmp	.Lwatched
1:	lea	-MAP_PRIVATE_ANONYMOUS(%r10), %rcx
	jrcxz	.Lpass
	lea	-MAP_PRIVATE_FILE(%r10), %rcx
	jrcxz	.Lpass
	lea	-MAP_SHARED_FILE(%r10), %rcx
	jrcxz	.Lpass
	lea	-MAP_THREAD_STACK(%r10), %rcx
	jrcxz	.Lpass
.Lunmap:
	mov	dp_files_are(%rip), %ecx
	jrcxz	.Lmaps
	jmp	.Lwatched
	/* Mostly there is no text. */
.Lmaps:	LEAVE_RED_ZONE
	SAVE	%rax
	lahf
	seto	%al
	SAVE	%rax
	call	dp_texts_far
	mov	%rax, %rcx
	LOAD	%rax
	add	$0x7f, %al		/* overflow as it was */
	sahf
	LOAD	%rax
	TO_RED_ZONE
	jrcxz	2f
	jmp	*%r11
2:	jmp	.Lwatched

.Ladvice:
	lea	-MADV_DONTNEED(%rdx), %ecx
	jrcxz	.Lmaps
	lea	-MADV_DONTNEED_LOCKED(%rdx), %ecx
	jrcxz	.Lmaps
	lea	-MADV_GUARD_INSTALL(%rdx), %ecx
	jrcxz	.Lmaps
.Lpass:	jmp	*%r11

	/* What address space we take is not the program's. */
.Llimits:
	lea	-DP_NR_prlimit64(%rax), %ecx
	jrcxz	2f
	lea	-DP_NR_setrlimit(%rax), %ecx
	jrcxz	2f
	lea	-DP_NR_getrlimit(%rax), %ecx
	jrcxz	2f
	jmp	.Lother
2:	jmp	.Lwatched

.Lother:
	lea	-DP_NR_rt_sigaction(%rax), %ecx
	jrcxz	.Laction
	lea	-DP_NR_rt_sigreturn(%rax), %ecx
	jrcxz	.Lreturn
	DP_WATCHED(GO_IF)
	jmp	*%r11
.Lnear:	jmp	.Lfound			/* jrcxz has one byte */

.Laction:
	.cfi_remember_state
	mov	%r11, %rcx
	.cfi_escape HOME_OF_RCX
	jmp	dp_action_site
	.cfi_restore_state
.Lreturn:
	jmp	.Lresumes
.Lresumes_on_its_stack:
	.cfi_remember_state
	mov	%rsp, %rbx
	.cfi_def_cfa_register rbx
	mov	%r11, %rbp
	.cfi_escape HOME_OF_RBP
	lea	-128(%rsp), %rsp
	and	$-16, %rsp
	CLEAN_FLAGS
	mov	%rbx, %rdi
	call	dp_moved
	mov	%rbx, %rsp
	mov	$DP_NR_rt_sigreturn, %eax
	jmp	*%rbp
	.cfi_restore_state
.Lfound:
	lea	-DP_NR_exit(%rax), %ecx
	jrcxz	1f
	lea	-DP_NR_exit_group(%rax), %ecx
	jrcxz	2f
	jmp	.Lwatched
1:	jmp	.Lends
2:	mov	dp_shadowed(%rip), %ecx	/* an end of all is of interest with a shadow, behind filters */
	jrcxz	2f
	jmp	.Lwatched
2:	mov	dp_filters(%rip), %rcx
	jrcxz	3f
	jmp	.Lwatched
3:	mov	dp_forbidden(%rip), %ecx
	jrcxz	4f
	jmp	.Lwatched
4:	jmp	*%r11
.Lwatched:
	mov	%r11, %rcx
	.cfi_remember_state
	.cfi_escape HOME_OF_RCX
	LEAVE_RED_ZONE
	SAVE	-8(%rcx)		/* home */
	.cfi_rel_offset rip, 0
	SAVE	$0			/* fork */
	SAVE	$0			/* kept */
	SAVE_FLAGS
	SAVE	%rcx
	SAVE	%rax
	SAVE_ARGUMENTS
	.cfi_rel_offset rdi, DP_REGS_RDI-DP_REGS_R10	/* has libc's vfork its caller in */
	SAVE	%r15
	.cfi_rel_offset r15, 0
	SAVE	%rbp
	.cfi_rel_offset rbp, 0
	mov	%rsp, %rdi
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	TO_SIDE_STACK
	and	$-16, %rsp
	CLEAN_FLAGS
	call	dp_before
	FROM_SIDE_STACK
	.cfi_def_cfa_register rsp
	mov	%rax, %r15
	test	%rax, %rax
	jz	.Lleave
	call	.Lload			/* rsp: struct dp_regs */
	mov	DP_REGS_RAX(%rsp), %rax
	syscall				/* with clean flags: no trap while signals are blocked */
	cmp	$DP_EXEC_CALL, %r15
	jbe	.Lafter
	mov	%rax, %rcx
	jrcxz	1f
	jmp	.Lafter
1:	jmp	.Lchild

	/* In the parent. */
.Lafter:
	mov	%rax, DP_REGS_RAX(%rsp)
	mov	%rsp, %rsi
	mov	%r15, %rdi
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	TO_SIDE_STACK
	and	$-16, %rsp
	CLEAN_FLAGS
	call	dp_after
	FROM_SIDE_STACK
	.cfi_def_cfa_register rsp
	addq	$DP_THUNK_SYSCALL, DP_REGS_RCX(%rsp)
	jmp	.Lleave

	/* Without a record rcx still leads to the thunk's own system call. */
.Lleave:
	call	.Lload
	SAVE	DP_REGS_FLAGS(%rsp)
	LOAD_FLAGS
	mov	DP_REGS_R15(%rsp), %r15
	mov	DP_REGS_RAX(%rsp), %rax
	.cfi_restore r15
	.cfi_restore rbp
	.cfi_restore rdi
	mov	DP_REGS_RCX(%rsp), %rcx
	mov	DP_REGS_HOME(%rsp), %r11
	.cfi_register rip, r11
	lea	DP_REGS_SIZE+128(%rsp), %rsp
	.cfi_def_cfa_offset 0
	jmp	*%rcx

	/* Loads all saved registers but the flags, r15, rax and rcx. rsp: return address,
	 * then struct dp_regs. To an unwinder it is a part of what calls it. */
.Lload:
	.cfi_def_cfa_offset 8+DP_REGS_SIZE+128
	.cfi_offset rip, -136
	.cfi_offset r15, DP_REGS_R15-DP_REGS_SIZE-128
	.cfi_offset rbp, DP_REGS_RBP-DP_REGS_SIZE-128
	.cfi_offset rdi, DP_REGS_RDI-DP_REGS_SIZE-128
	mov	8+DP_REGS_RBP(%rsp), %rbp
	mov	8+DP_REGS_R10(%rsp), %r10
	mov	8+DP_REGS_R9(%rsp), %r9
	mov	8+DP_REGS_R8(%rsp), %r8
	mov	8+DP_REGS_RDX(%rsp), %rdx
	mov	8+DP_REGS_RSI(%rsp), %rsi
	mov	8+DP_REGS_RDI(%rsp), %rdi
	ret
	.cfi_restore_state

	/* Child: r15 is the birth record, rsp a stack of its own or, after a
	 * fork, where the parent's was. To an unwinder it is where the record says. */
.Lchild:
	.cfi_escape FRAME_OF_BIRTH
	.cfi_escape HOME_OF_BIRTH
	.cfi_escape R15_OF_BIRTH
	.cfi_same_value rbp
	.cfi_same_value rdi
	mov	DP_BIRTH_GS(%r15), %rcx
	cmpb	$0, dp_have_wrgsbase(%rip)
	je	1f
	wrgsbase %rcx
	jmp	2f
1:	mov	$ARCH_SET_GS, %edi
	mov	%rcx, %rsi
	mov	$DP_NR_arch_prctl, %eax
	syscall
	mov	DP_BIRTH_RDI(%r15), %rdi
	mov	DP_BIRTH_RSI(%r15), %rsi
2:	cmpl	$0, DP_BIRTH_FORK(%r15)
	je	3f
	push	%rdi
	push	%rsi
	push	%rdx
	push	%r8
	push	%r9
	push	%r10
	push	%rbp
	mov	%rsp, %rbp
	.cfi_escape RBP_AT_RBP
	movl	$(DP_NO_SIDE_STACKS & 0xffffffff), dp_side_stacks_taken(%rip) /* by this thread, the only one, none */
	TO_SIDE_STACK
	mov	%r15, %rdi
	and	$-16, %rsp
	CLEAN_FLAGS
	call	dp_forked
	FROM_SIDE_STACK
	pop	%rbp
	.cfi_same_value rbp
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
4:	.cfi_def_cfa rsp, 0
	mov	DP_BIRTH_RESUME(%r15), %rcx
	.cfi_escape HOME_OF_PASSED
	mov	%r15, %rax
	mov	DP_BIRTH_R15(%r15), %r15
	.cfi_same_value r15
	movq	$0, DP_BIRTH_RESUME(%rax) /* from here on it may be another's */
	mov	$0, %eax
	jmp	*%rcx
	.cfi_endproc
	.size	dp_kernel_site, . - dp_kernel_site

/* A thread ends: its stack may be another's already, or be unmapped, as who makes threads
 * by himself may give it away before (Go's exitThread, musl's __unmapself). Where all
 * stacks of ours are taken the kernel will know that it is gone. The system call does not
 * come back.
 * Or the program resumes a context by itself: it lies where rsp leads to, perhaps with
 * something else below, and all registers come from it, as do blocked signals.
 * r8: pass. r9: the status, and on which side the thread has entered.
 */
	.type	dp_without_stack, @function
dp_without_stack:
	.cfi_startproc
	.cfi_def_cfa rsp, 0
	.cfi_escape HOME_OF_R11
.Lends:	mov	%r11, %r8
	.cfi_escape HOME_OF_R8
	mov	%edi, %r9d
	shl	$32, %r9
	CALL_ON_STACK_OF_OURS dp_thread_ends, mask=.Lall_but_sigsys(%rip), else=.Lends_on_its_stack, none=4f
4:	mov	%r9, %rdi
	shr	$32, %rdi
	mov	$DP_NR_exit, %eax
	jmp	*%r8
.Lends_on_its_stack:
	mov	%r9, %rdi
	shr	$32, %rdi
	mov	%r8, %r11
	mov	$DP_NR_exit, %eax
	jmp	.Lwatched
	.cfi_escape HOME_OF_R11
.Lresumes:
	mov	%r11, %r8
	.cfi_escape HOME_OF_R8
	xor	%r9d, %r9d
	CALL_ON_STACK_OF_OURS dp_moved, mask=DP_UC_RIP(%rsp), else=5f, none=5f
	mov	$DP_NR_rt_sigreturn, %eax
	jmp	*%r8
5:	cmp	$-EFAULT, %eax		/* there is none: the kernel says so */
	je	6f
	mov	%r8, %r11
	jmp	.Lresumes_on_its_stack
6:	mov	$DP_NR_rt_sigreturn, %eax
	jmp	*%r8
	.cfi_endproc
	.size	dp_without_stack, . - dp_without_stack

/* A threshold's cold path. A cold block did
 *
 *	        lea   -128(%rsp),%rsp
 *	        push  $counter
 *	        call  <the arena's jump to here>
 *
 * The caller keeps no flags over a count, but those of dp_cross's own are
 * harmless: every register is kept. At a function's entry there is no frame of it yet:
 * to an unwinder dp_cold is called by the function's caller.
 */
	.globl	dp_cold
	.type	dp_cold, @function
dp_cold:
	.cfi_startproc
	.cfi_def_cfa rsp, 8+8+128+8	/* its return address, the counter, the red zone */
	SAVE	%rbp
	.cfi_rel_offset rbp, 0
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	pushfq
	PUSH_CALLER_SAVED
	mov	16(%rbp), %edi		/* the counter */
	mov	8(%rbp), %rsi
	and	$-16, %rsp
	CLEAN_FLAGS
	call	dp_cross
	lea	-10*8(%rbp), %rsp
	POP_CALLER_SAVED
	popfq
	.cfi_def_cfa_register rsp
	LOAD	%rbp
	.cfi_restore rbp
	ret
	.cfi_endproc
	.size	dp_cold, . - dp_cold

/* An access that may be to a region: what is in front of its instruction did, with words
 * that stub.h tells of below the red zone,
 *
 *	        call  <the arena's jump to here>
 *
 * Every register is kept, and the direction flag. To an unwinder it is called in front of
 * the instruction, in the middle of its function, as a signal's handler is.
 */
#define FRAME_OF_RECORD(up) 0x0f, 3, 0x77, (up) + 8 + DP_RECORD_RSP, 0x06	/* CFA = *(rsp + ...) */
#define HOME_OF_RECORD(up) 0x10, 16, 2, 0x77, (up) + 8 + DP_RECORD_HOME	/* rip at rsp + ... */
	.globl	dp_record_access
	.type	dp_record_access, @function
dp_record_access:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_escape FRAME_OF_RECORD(0)
	.cfi_escape HOME_OF_RECORD(0)
	.cfi_remember_state
	push	%rbp
	.cfi_escape FRAME_OF_RECORD(8)
	.cfi_escape HOME_OF_RECORD(8)
	.cfi_escape 0x10, 6, 2, 0x77, 0		/* rbp at rsp */
	mov	%rsp, %rbp
	.cfi_escape 0x0f, 3, 0x76, 16 + DP_RECORD_RSP, 0x06	/* the same by rbp */
	.cfi_escape 0x10, 16, 2, 0x76, 16 + DP_RECORD_HOME
	.cfi_escape RBP_AT_RBP
	pushfq
	PUSH_CALLER_SAVED
	TO_SIDE_STACK
	and	$-16, %rsp
	testl	$UNCLEAN_FLAGS, -8(%rbp)
	jz	1f
	CLEAN_FLAGS
1:	mov	16+DP_RECORD_AT(%rbp), %rdi
	mov	16+DP_RECORD_HOME(%rbp), %rsi
	mov	16+DP_RECORD_WHAT(%rbp), %rdx
	test	$DP_FORMS, %edx
	jz	4f
	/* What is accessed is a matter of several registers: struct dp_form_registers, in one piece,
	 * wherever this runs. */
	sub	$(DP_FORM_REGISTERS*8), %rsp
	and	$-16, %rsp
	mov	%rbx, 5*8(%rsp)
	mov	%r12, 4*8(%rsp)
	mov	%r13, 3*8(%rsp)
	mov	%r14, 2*8(%rsp)
	mov	%r15, 1*8(%rsp)
	lea	-10*8(%rbp), %rsi
	lea	6*8(%rsp), %rdi
	mov	$11, %ecx
6:	mov	(%rsi), %rax
	mov	%rax, (%rdi)
	add	$8, %rsi
	add	$8, %rdi
	dec	%ecx
	jnz	6b
	mov	16+DP_RECORD_AT(%rbp), %rdi
	mov	16+DP_RECORD_HOME(%rbp), %rsi
	mov	%rsp, %rcx
	mov	16+DP_RECORD_RSP(%rbp), %r8
	call	dp_form_access
	jmp	5f
4:	call	dp_record
5:	FROM_SIDE_STACK
	lea	-10*8(%rbp), %rsp
	testl	$UNCLEAN_FLAGS, -8(%rbp)
	POP_CALLER_SAVED
	jnz	2f
	lea	8(%rsp), %rsp		/* which of those in use are nobody's */
	jmp	3f
2:	popfq
3:	pop	%rbp
	.cfi_restore_state
	ret
	.cfi_endproc
	.size	dp_record_access, . - dp_record_access

/* The rest of struct dp_regs, behind rcx: rdi leads to it, rbp is what rsp was; and back. */
	.macro	SAVE_REGS
	SAVE	%rax
	SAVE_ARGUMENTS
	SAVE	%r15
	SAVE	%rbp
	.cfi_rel_offset rbp, 0
	mov	%rsp, %rdi
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	.endm

	.macro	LOAD_REGS
	.cfi_def_cfa_register rsp
	LOAD	%rbp
	.cfi_restore rbp
	LOAD	%r15
	LOAD_ARGUMENTS
	LOAD	%rax
	LOAD	%rcx
	.endm

/* A signal site: a thunk in the arena, in place of `mov $NR,%eax` before a
 * syscall, did
 *
 *	        mov   $NR,%eax
 *	        lea   <behind the syscall>(%rip),%rcx
 *	        jmp   *dp_signal_site
 *
 * dp_signal stands in for the system call: then %rcx leads behind it, and %rax
 * is the result. Or it lets the call be, and %rcx leads to it. A handler of the
 * program may run meanwhile, and throw: to an unwinder this looks like a call
 * from the site.
 */
	.globl	dp_signal_site
	.type	dp_signal_site, @function
dp_signal_site:
	.cfi_startproc
	.cfi_def_cfa rsp, 0
	.cfi_register rip, rcx
	LEAVE_RED_ZONE
	SAVE	$0			/* home, fork, kept: not used */
	SAVE	$0
	SAVE	$0
	SAVE_FLAGS
	SAVE	%rcx
	.cfi_rel_offset rip, 0
	SAVE_REGS
	and	$-16, %rsp
	CLEAN_FLAGS
	call	dp_signal
	mov	%rbp, %rsp
	LOAD_REGS
	.cfi_register rip, rcx
	LOAD_FLAGS
	lea	152(%rsp), %rsp
	.cfi_adjust_cfa_offset -152
	jmp	*%rcx
	.cfi_endproc
	.size	dp_signal_site, . - dp_signal_site

/* Behind a system call that moves bytes between a socket and memory: a thunk in the arena, in
 * place of the comparison of its result, did
 *
 *	        lea   pass(%rip),%rcx
 *	        jmp   *dp_transfer_site
 *	        .quad <the system call's number>
 *	        .quad <behind the system call>
 *	pass:   lea   <behind the system call>(%rip),%rcx
 *	        <the comparison>
 *
 * rcx is what the thunk puts back, and flags are the comparison's to set, but r11 has them as they
 * were: the system call leaves them there. To an unwinder this is called by the program.
 */
	.globl	dp_transfer_site
	.type	dp_transfer_site, @function
dp_transfer_site:
	.cfi_startproc
	.cfi_def_cfa rsp, 0
	.cfi_escape HOME_OF_RCX
	LEAVE_RED_ZONE
	SAVE	-8(%rcx)		/* home */
	.cfi_rel_offset rip, 0
	SAVE	%r11			/* fork */
	SAVE	-16(%rcx)		/* kept: the number */
	SAVE_FLAGS
	SAVE	%rcx
	SAVE_REGS
	TO_SIDE_STACK
	and	$-16, %rsp
	CLEAN_FLAGS
	call	dp_transferred
	FROM_SIDE_STACK
	LOAD_REGS
	LOAD_FLAGS
	mov	8(%rsp), %r11
	.cfi_escape HOME_OF_RCX
	lea	24+128(%rsp), %rsp
	.cfi_adjust_cfa_offset -24-128
	jmp	*%rcx
	.cfi_endproc
	.size	dp_transfer_site, . - dp_transfer_site

	.section .rodata
	.p2align 3
.Lall_but_sigsys:
	.quad	~(1 << (31 - 1))

	.section .note.GNU-stack, "", @progbits
