/* The C half of a kernel site (slowpath.S has the other). Where a thread or
 * process is made, the parent takes the child's row before the system call and
 * leaves it where the child's first instructions find it. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <sched.h>
#include <signal.h>

#include "base/clock.h"
#include "base/filters.h"
#include "base/hooks.h"
#include "base/lock.h"
#include "base/mapped.h"
#include "base/sidestack.h"
#include "base/state.h"
#include "base/stub.h"
#include "rows/birth.h"
#include "rows/loose.h"
#include "rows/lost.h"
#include "rows/rows.h"
#include "rows/space.h"
#include "signals/traps.h"
#include "sites/ends.h"
#include "sites/gs.h"
#include "sites/replaced.h"
#include "sites/successor.h"
#include "sites/watched.h"
#include "table/files.h"
#include "sites/withdraw.h"
#include "stubs/arenas.h"
#include "stubs/redirect.h"
#include "table/allocs.h"
#include "table/executions.h"
#include "texts/giveback.h"

struct clone_args3 { /* struct clone_args of linux/sched.h, its first 64 bytes */
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

/* A handler in the child would count on the parent's row until the child has
 * its own. Where a filter forbids to block signals, one that strikes in the
 * child's first five instructions does. */
#define TRAP_FLAG 0x100ULL

enum { ENTERED = 8 }; /* from this bit on dp_regs.fork has what dp_enter returned */

static void block_signals(struct dp_birth *b, struct dp_regs *r)
{
	uint64_t all = DP_ALL_BUT_SIGSYS & dp_to_block();
	int entered = dp_enter(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)&all, (uint64_t)&b->sigmask, 8, 0, 0);
	if (!entered)
		return;
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &all, &b->sigmask, 8);
	r->kept = b->sigmask;
	b->fork = DP_FORK_BLOCKED;
	r->fork = DP_FORK_BLOCKED | (uint64_t)entered << ENTERED;
}

/* What a system call that makes a child asks for. */
struct asked {
	int refused; /* the kernel will not do it */
	uint64_t flags, stack;
};

static struct asked asks(const struct dp_regs *r)
{
	struct clone_args3 args;
	if ((uint32_t)r->rax == DP_NR_clone)
		return (struct asked){0, r->rdi, r->rsi};
	if ((uint32_t)r->rax == DP_NR_fork)
		return (struct asked){0, 0, 0};
	if (!r->rdi || r->rsi < sizeof args || !dp_read_argument(&args, r->rdi, sizeof args, dp_program_stack(r)))
		return (struct asked){1, 0, 0};
	return (struct asked){0, args.flags, args.stack};
}

/* What the child will need, or 0 if the system call shall run as it is: a child
 * that shares our memory while we wait for it (vfork, posix_spawn) runs on our
 * row; all do where there is but one, or none counts any more. */
static struct dp_birth *birth(struct dp_regs *r)
{
	struct asked it = asks(r);
	uint64_t flags = it.flags;
	__atomic_fetch_add(&dp_arenas_shared, !(flags & CLONE_VM), __ATOMIC_RELAXED);
	if (!(flags & CLONE_VM))
		dp_allocs_copied();
	if (it.refused || dp.shared || dp_stopped())
		return 0;
	if ((flags & CLONE_VM) && !(flags & CLONE_THREAD))
		dp_memory_shared();
	if ((flags & CLONE_VM) && (flags & CLONE_VFORK))
		return 0;
	if (!dp_have_wrgsbase && !dp_may(SYS_arch_prctl, ARCH_SET_GS, (uint64_t)dp.discard, 0, 0)) {
		__atomic_fetch_add(&dp.table->threads_discarded, 1, __ATOMIC_RELAXED);
		dp_row_shared();
		return 0; /* it must share our row */
	}
	struct dp_row *row = dp_row_take(flags & CLONE_THREAD ? DP_ROW_THREAD : DP_ROW_PROCESS);
	struct dp_birth *b = row ? dp_birth_of(row) : dp_lost_take();
	if (!b) {
		dp_row_shared();
		return 0; /* as well */
	}
	if (row && !(flags & CLONE_VM))
		dp_forget_executions(row);
	if (row && dp_handles_traps)
		row->trap_blocked = dp_trap_blocked();
	b->gs = (uint64_t)(row ? row : dp.discard);
	b->r15 = r->r15;
	b->rdi = r->rdi;
	b->rsi = r->rsi;
	b->rsp = it.stack ? 0 : dp_program_stack(r);
	b->resume = r->rcx + DP_THUNK_SYSCALL;
	b->flags = r->flags;
	r->fork = b->fork = flags & CLONE_VM ? 0 : DP_FORK;
	if (b->fork)
		block_signals(b, r);
	return b;
}

/* Whether what a call does with mappings is of interest to regions of files, once it has been made. */
static int maps(struct dp_regs *r)
{
	const uint64_t arguments[] = {r->rdi, r->rsi, r->rdx, r->r10, r->r8};
	uint32_t note = dp_files_before((uint32_t)r->rax, arguments);
	r->kept = (uint64_t)note << 32 | (uint32_t)r->rax;
	return note != 0;
}

static void mapped(const struct dp_regs *r)
{
	const uint64_t arguments[] = {r->rdi, r->rsi, r->rdx, r->r10, r->r8};
	dp_files_after((uint32_t)r->kept, (uint32_t)(r->kept >> 32), arguments, (long)r->rax);
}

/* Called with the registers of the kernel site. Returns a birth, what stands for
 * another call whose result matters, or 0: then dp_after is not called. */
struct dp_birth *dp_before(struct dp_regs *r) HIDDEN;
struct dp_birth *dp_before(struct dp_regs *r)
{
	if (dp_withdrawn) {
		dp_own_address(r);
		return 0;
	}
	switch ((uint32_t)r->rax) {
	case DP_NR_clone:
	case DP_NR_fork:
	case DP_NR_clone3:
		return birth(r);
	case DP_NR_vfork: /* the child runs on our row */
		dp_memory_shared();
		return 0;
	case DP_NR_exit:
		if (dp_thread_ends())
			r->flags &= ~TRAP_FLAG; /* a step would kill, with signals blocked */
		return 0;
	case DP_NR_exit_group:
		dp_process_ends();
		return 0;
	case DP_NR_mmap:
	case DP_NR_munmap:
	case DP_NR_mremap:
	case DP_NR_madvise:
		dp_memory_changes(r);
		return dp_files_are && maps(r) ? (struct dp_birth *)DP_MAP_CALL : 0;
	case DP_NR_mprotect:
	case DP_NR_pkey_mprotect:
		dp_text_changes(r);
		return 0;
	case DP_NR_mlockall:
		dp_lock_all(r);
		return 0;
	case DP_NR_getrlimit:
	case DP_NR_setrlimit:
	case DP_NR_prlimit64:
		dp_space_limited(r);
		return 0;
	case DP_NR_arch_prctl:
		return dp_gs_comes(r) ? (struct dp_birth *)DP_GS_CALL : 0;
	case DP_NR_execve:
	case DP_NR_execveat:
		return dp_executes(r) ? (struct dp_birth *)DP_EXEC_CALL : 0;
	case DP_NR_prctl:
		dp_tsc_comes(r);
		dp_dispatch_comes(r);
		break;
	}
	if (!dp_installs_filter(r))
		return 0;
	struct dp_filter *f = dp_filter_read(r);
	if (dp_filter_sees_addresses(r, f)) {
		dp_filter_drop(f);
		dp_withdraw(r);
		return 0;
	}
	if (!dp.shared)
		dp_rows_stock(); /* what may be needed later is got now */
	dp_filter_comes(r, f);
	return (struct dp_birth *)DP_FILTER_CALL;
}

/* In the parent, after the system call: r->rax is its result. */
void dp_after(struct dp_birth *b, struct dp_regs *r) HIDDEN;
void dp_after(struct dp_birth *b, struct dp_regs *r)
{
	if (b == (struct dp_birth *)DP_FILTER_CALL) {
		dp_filter_done(r);
		return;
	}
	if (b == (struct dp_birth *)DP_GS_CALL) {
		dp_gs_done(r);
		return;
	}
	if (b == (struct dp_birth *)DP_MAP_CALL) {
		mapped(r);
		return;
	}
	if (b == (struct dp_birth *)DP_EXEC_CALL) {
		dp_executed(r);
		return;
	}
	if (dp_is_lost(b)) {
		if (r->fork || failed((long)r->rax))
			dp_lost_free(b); /* else its child does, and it may be another's by now */
	} else if (r->fork && !failed((long)r->rax) && dp_is_loose(b->gs)) {
		dp_loose_drop((struct dp_row *)b->gs); /* the child has a copy */
	} else {
		dp_row_made((struct dp_row *)b->gs, (long)r->rax); /* from here on b may be another's */
	}
	if (r->fork >> ENTERED) {
		raw(SYS_rt_sigprocmask, SIG_SETMASK, &r->kept, 0, 8);
		dp_leave((int)(r->fork >> ENTERED));
	}
}

/* In a forked child, on its own row already. */
void dp_forked(struct dp_birth *b) HIDDEN;
void dp_forked(struct dp_birth *b)
{
	dp_rows_begin((struct dp_row *)b->gs);
	dp_ends_forked();
	dp_lost_forked(b);
	dp_redirect_forked();
	dp_hooks.forked();
	dp_giveback_forked();
	if (b->fork == DP_FORK_BLOCKED)
		raw(SYS_rt_sigprocmask, SIG_SETMASK, &b->sigmask, 0, 8);
}
