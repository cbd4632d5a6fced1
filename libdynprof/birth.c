/* The C half of a clone site (slowpath.S has the other): the parent takes the
 * child's row before the system call and leaves it where the child's first
 * instructions find it. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>

#include "birth.h"
#include "rows.h"
#include "state.h"

#define NR_clone 56
#define NR_fork 57

/* Births of threads for which there is no row. A slot is used again after
 * that many births; by then its child has long read it. */
enum { DP_LOST_BIRTHS = 4096 };
static struct dp_birth lost_births[DP_LOST_BIRTHS];
static uint32_t lost_next;

struct clone_args3 { /* struct clone_args of linux/sched.h, its first 64 bytes */
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

/* Called with the registers of the clone site. Returns what the child will
 * need, or 0 if the system call shall run as it is: a child that shares our
 * memory while we wait for it (vfork, posix_spawn) runs on our row. */
struct dp_birth *dp_birth(struct dp_regs *r) HIDDEN;
struct dp_birth *dp_birth(struct dp_regs *r)
{
	uint64_t flags = 0, stack = 0;
	if (r->rax == NR_clone) {
		flags = r->rdi;
		stack = r->rsi;
	} else if (r->rax != NR_fork) {
		const struct clone_args3 *args = (const struct clone_args3 *)r->rdi;
		if (!args || r->rsi < sizeof *args)
			return 0; /* the kernel will refuse it */
		flags = args->flags;
		stack = args->stack;
	}
	if ((flags & CLONE_VM) && (flags & CLONE_VFORK))
		return 0;
	uint8_t *row = dp_row_take(flags & CLONE_THREAD ? DP_ROW_THREAD : DP_ROW_PROCESS);
	struct dp_birth *b = row ? (struct dp_birth *)(row + DP_ROW_BIRTH)
				 : &lost_births[__atomic_fetch_add(&lost_next, 1, __ATOMIC_RELAXED) % DP_LOST_BIRTHS];
	b->gs = (uint64_t)(row ? row : dp.discard);
	b->r15 = r->r15;
	b->rdi = r->rdi;
	b->rsi = r->rsi;
	b->rsp = stack ? 0 : (uint64_t)(r + 1) + 128;
	b->resume = r->rcx + DP_THUNK_SYSCALL;
	b->flags = r->flags;
	b->fork = !(flags & CLONE_VM);
	if (b->fork) {
		/* A handler in the child would count on the parent's row until
		 * the child has its own. */
		uint64_t all = ~0ULL;
		b->sigmask = 0;
		raw(SYS_rt_sigprocmask, SIG_SETMASK, &all, &b->sigmask, 8);
		r->sigmask = b->sigmask;
	}
	return b;
}

/* In the parent, after the system call: r->rax is its result. */
void dp_birth_done(struct dp_birth *b, struct dp_regs *r) HIDDEN;
void dp_birth_done(struct dp_birth *b, struct dp_regs *r)
{
	uint64_t fork = b->fork;
	if (b->gs != (uint64_t)dp.discard)
		dp_row_made((uint8_t *)b->gs, (long)r->rax); /* from here on b may be another's */
	if (fork)
		raw(SYS_rt_sigprocmask, SIG_SETMASK, &r->sigmask, 0, 8);
}

/* In a forked child, on its own row already. */
void dp_forked(struct dp_birth *b) HIDDEN;
void dp_forked(struct dp_birth *b)
{
	dp_rows_begin((uint8_t *)b->gs);
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &b->sigmask, 0, 8);
}
