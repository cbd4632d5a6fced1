/* Syscall User Dispatch (prctl(2); Linux, admin-guide/syscall-user-dispatch.rst): a
 * thread lets the kernel have the system calls of one range of addresses, and gets
 * SIGSYS for all others, or the other way round. So from then on its system calls
 * must be made where the program has them, and none by us. A thread that it makes
 * could not be given a row. The same is true behind a seccomp filter that looks at
 * the address of a system call. So this process is left, before the call is made:
 *
 *  1. All text is given back (giveback.c), kernel sites, signal sites and the
 *     dynamic linker's hook, too. Others of the fork tree have text of their own,
 *     and are counted on.
 *  2. dp_withdrawn is stored: who is in a thunk yet, or finds a kernel site that
 *     could not be given back, makes the call at its own address, and nobody does
 *     anything for us.
 *  3. The kernel gets the program's own signal handlers.
 *  4. Loose rows are added to the table, which says how many processes have left.
 * What could not be given back, since a filter forbids it, would count on, and
 * children in the rows of their parents: so counting ends, as when GS is taken.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>

#include "base/filters.h"
#include "base/state.h"
#include "base/stub.h"
#include "signals/action.h"
#include "signals/kept.h"
#include "signals/signals.h"
#include "signals/traps.h"
#include "sites/ends.h"
#include "sites/gs.h"
#include "sites/withdraw.h"
#include "stubs/arenas.h"
#include "stubs/redirect.h"
#include "texts/giveback.h"
#include "texts/letrun.h"
#include "texts/patched.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
enum { DISPATCH_OFF, DISPATCH_ON, DISPATCH_INCLUSIVE };


/* Whether the kernel will turn it on. Turning it off changes nothing where it is
 * off, and says whether the kernel knows it. */
static int turns_on(const struct dp_regs *r)
{
	uint64_t mode = r->rsi, start = r->rdx, size = r->r10;
	if ((uint32_t)r->rdi != PR_SET_SYSCALL_USER_DISPATCH || (mode != DISPATCH_ON && mode != DISPATCH_INCLUSIVE))
		return 0;
	if (start && start + size <= start)
		return 0;
	return ask(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, DISPATCH_OFF, 0, 0, 0) != -EINVAL;
}

/* SIGTRAP, too: who has just come to a trap of ours is in the handler by then. */
static void give_handlers(uint64_t *mask)
{
	if (dp_handles_traps)
		dp_let_all_run();
	if (dp_handles_traps && dp_trap_blocked())
		*mask |= TRAP_BIT;
	dp_handlers_given();
}

static void leave(int given, uint64_t *mask)
{
	if (given)
		give_handlers(mask);
	else if (!dp.shared)
		dp_stop();
	dp_loose_rows_end();
	__atomic_fetch_add(&dp.table->dispatched, 1, __ATOMIC_RELAXED);
}

static void withdraw(void)
{
	uint64_t all = dp_to_block(), mask = 0;
	int blocked = ask(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, 8) == 0;
	dp_reads();
	int given = dp_give_all();
	dp_has_read();
	if (given)
		__atomic_store_n(&dp_kept_no_more, 1, __ATOMIC_RELEASE);
	if (!__atomic_exchange_n(&dp_withdrawn, 1, __ATOMIC_SEQ_CST))
		leave(given, &mask); /* no other thread does */
	if (blocked)
		ask(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
}

void dp_withdraw(struct dp_regs *r)
{
	withdraw();
	dp_own_address(r);
}

void dp_dispatch_comes(struct dp_regs *r)
{
	if (turns_on(r))
		dp_withdraw(r);
}

/* Where the program has the system call of a thunk: that is the setup, the call, a lea,
 * perhaps an instruction of so many bytes behind it, and a jump to what follows. 0:
 * it is none. */
static uint64_t syscall_of(const uint8_t *behind, uint64_t *moved)
{
	enum { MOST_MOVED = 16 };
	for (*moved = 0; *moved < MOST_MOVED; ++*moved) {
		const uint8_t *at = behind + DP_THUNK_LEA + *moved;
		uint64_t to = dp_jump_target((uint64_t)at);
		if (*at == DP_OP_JMP && dp_is_text(to - DP_JMP_SIZE))
			return to - *moved - DP_THUNK_SYSCALL;
	}
	return 0;
}

void dp_other_call(void) HIDDEN;

/* What was overwritten is the end of a function's first instructions: nothing below
 * its stack pointer is in use. So its call can be made by another that returns
 * (othercall.S). */
static void by_another(struct dp_regs *r, uint64_t at)
{
	uint64_t *stack = (uint64_t *)((uint64_t)(r + 1) + 128), other = dp_returning_near(at);
	if (!other)
		return;
	stack[-2] = other;
	stack[-3] = r->rcx + DP_THUNK_SYSCALL;
	r->rcx = (uint64_t)&dp_other_call;
}

/* The program's own system call is still there where the patch is in front of it, or
 * was given back. A call that does not return may be made by any near it. */
static void own_address(struct dp_regs *r)
{
	uint64_t moved, at = syscall_of((const uint8_t *)r->rcx + DP_THUNK_SYSCALL, &moved);
	int ends = r->rax == SYS_exit || r->rax == SYS_exit_group;
	if (!at)
		return;
	if (!dp_is_syscall(at) && moved && !ends) {
		by_another(r, at);
		return;
	}
	if (!dp_is_syscall(at))
		at = ends ? dp_syscall_near(at) : 0;
	if (at)
		r->rcx = at;
}

void dp_own_address(struct dp_regs *r)
{
	dp_reads();
	own_address(r);
	dp_has_read();
}
