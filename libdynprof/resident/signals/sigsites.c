/* Signal sites: where traps are allowed, the system calls that could take SIGTRAP
 * from our handler (traps.c), or block it, come here from slowpath.S. They are
 * made with SIGTRAP left out, and the program sees what it asked for.
 *
 * Everything here runs in signal handlers and in any thread, and shares its
 * memory with children of vfork: no lock, and raw system calls only.
 */
#define _GNU_SOURCE
#include <signal.h>

#include "base/mapped.h"
#include "base/pieces.h"
#include "base/regs.h"
#include "base/state.h"
#include "signals/handlers.h"
#include "signals/signals.h"
#include "signals/sigsites.h"
#include "signals/traps.h"

#define NR_rt_sigaction 13
#define NR_rt_sigprocmask 14
#define NR_rt_sigsuspend 130
#define NR_pselect6 270
#define NR_ppoll 271
#define NR_epoll_pwait 281
#define NR_epoll_pwait2 441

enum { SYSCALL_SIZE = 2, SIGNALS = 64 };

/* ---- what the program asked for -------------------------------------- */

/* Actions for SIGTRAP that it asked for. Each is there once, and for good: who reads
 * the current one sees all of it, however often it changes meanwhile. */
struct wish {
	struct action is;
	struct wish *next;
};
static struct wish at_first;
static struct wish *wishes, *wish; /* 0: as it was at first */

static struct action action_of(const struct wish *w) { return (w ? w : &at_first)->is; }

/* Signals whose handlers the program wants to run with SIGTRAP blocked. */
static uint64_t masking;

struct action dp_wish(void) { return action_of(__atomic_load_n(&wish, __ATOMIC_ACQUIRE)); }

static int same_action(const struct action *a, const struct action *b)
{
	return a->handler == b->handler && a->flags == b->flags && a->restorer == b->restorer && a->mask == b->mask;
}

/* The wish for an action; 0 if there is no memory for it. */
static struct wish *wish_for(const struct action *a)
{
	struct wish *first = __atomic_load_n(&wishes, __ATOMIC_ACQUIRE), *mine = 0;
	if (same_action(&at_first.is, a))
		return &at_first;
	do {
		for (struct wish *w = first; w; w = w->next)
			if (same_action(&w->is, a))
				return w;
		if (!mine && !(mine = dp_piece(sizeof *mine)))
			return 0;
		*mine = (struct wish){*a, first};
	} while (!__atomic_compare_exchange_n(&wishes, &first, mine, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
	return mine;
}

/* Returns what it was. Without memory it stays. */
struct action dp_set_wish(const struct action *a)
{
	struct wish *w = wish_for(a);
	return w ? action_of(__atomic_exchange_n(&wish, w, __ATOMIC_ACQ_REL)) : dp_wish();
}

/* ---- signal sites ----------------------------------------------------- */

#define KNOWN_FLAGS (SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER | SA_RESETHAND | SA_RESTORER)

/* sigaction of SIGTRAP: our handler stays. */
static long own_action(const struct action *act, struct action *old)
{
	const uint64_t never = 1ULL << (SIGKILL - 1) | 1ULL << (SIGSTOP - 1);
	struct action was = dp_wish();
	if (act && !dp_is_vfork_child()) {
		struct action now = *act;
		now.flags &= (uint32_t)KNOWN_FLAGS;
		now.mask &= ~never;
		was = dp_set_wish(&now);
	}
	long ret = old ? raw(SYS_rt_sigaction, SIGTRAP, 0, old, 8) : 0; /* a bad address */
	if (old && ret == 0)
		*old = was;
	return ret;
}

/* sigaction of another signal: its handler runs without SIGTRAP blocked. */
static long other_action(uint64_t signal, const struct action *act, struct action *old)
{
	uint64_t bit = 1ULL << (signal - 1);
	int was = (__atomic_load_n(&masking, __ATOMIC_RELAXED) & bit) != 0, now = was;
	struct action copy = {0};
	if (act) {
		copy = *act;
		now = (copy.mask & TRAP_BIT) != 0;
		copy.mask &= ~TRAP_BIT;
	}
	long ret = dp_install((long)signal, act ? &copy : 0, old);
	if (failed(ret))
		return ret;
	if (old && was)
		old->mask |= TRAP_BIT;
	if (now != was && !dp_is_vfork_child()) {
		if (now)
			__atomic_fetch_or(&masking, bit, __ATOMIC_RELAXED);
		else
			__atomic_fetch_and(&masking, ~bit, __ATOMIC_RELAXED);
	}
	return 0;
}

long dp_trap_action(long signal, const struct action *act, struct action *old)
{
	if (signal == SIGTRAP)
		return own_action(act, old);
	if (signal < 1 || signal > SIGNALS)
		return raw(SYS_rt_sigaction, signal, act, old, 8);
	return other_action((uint64_t)signal, act, old);
}

/* sigprocmask: SIGTRAP is not blocked. It is unblocked indeed, if it was
 * (of_program). */
static long change_mask(int how, const uint64_t *set, uint64_t *old)
{
	uint32_t was = dp_trap_blocked(), now = was;
	uint64_t copy = 0;
	if (set) {
		uint32_t trap = (*set & TRAP_BIT) != 0;
		now = how == SIG_SETMASK ? trap : how == SIG_BLOCK ? was | trap : was & !trap;
		copy = how == SIG_UNBLOCK ? *set : *set & ~TRAP_BIT;
	}
	dp_set_trap_blocked(now); /* first: handlers may run before the call returns */
	long ret = raw(SYS_rt_sigprocmask, how, set ? &copy : 0, old, 8);
	if (failed(ret))
		dp_set_trap_blocked(was);
	else if (old && was)
		*old |= TRAP_BIT;
	return ret;
}

/* A system call that waits with another mask: handlers that run meanwhile have
 * it. Reports whether it was made here, with SIGTRAP taken out. */
static int wait_unblocked(struct dp_regs *r)
{
	struct { uint64_t mask, size; } sixth = {0, 0};
	uint64_t rdi = r->rdi, r10 = r->r10, r8 = r->r8, r9 = r->r9, size, copy, stack = dp_program_stack(r);
	uint64_t *mask; /* where its address is */
	switch (r->rax) {
	case NR_rt_sigsuspend:
		mask = &rdi;
		size = r->rsi;
		break;
	case NR_ppoll:
		mask = &r10;
		size = r->r8;
		break;
	case NR_epoll_pwait:
	case NR_epoll_pwait2:
		mask = &r8;
		size = r->r9;
		break;
	case NR_pselect6:
		if (!r9 || !dp_read_argument(&sixth, r9, sizeof sixth, stack))
			return 0;
		size = sixth.size;
		mask = &sixth.mask;
		r9 = (uint64_t)&sixth;
		break;
	default:
		return 0;
	}
	if (!*mask || size != 8 || !dp_read_argument(&copy, *mask, sizeof copy, stack) || !(copy & TRAP_BIT))
		return 0;
	copy &= ~TRAP_BIT;
	*mask = (uint64_t)&copy;
	r->rax = (uint64_t)raw(r->rax, rdi, r->rsi, r->rdx, r10, r8, r9);
	return 1;
}

/* Reads what the second argument points at, if it does. Reports whether it can be read. */
static int second(void *to, uint64_t size, const struct dp_regs *r)
{
	return !r->rsi || dp_read_argument(to, r->rsi, size, dp_program_stack(r));
}

/* Called with the registers of the signal site (slowpath.S). What the kernel
 * will refuse it is left to. */
void dp_signal(struct dp_regs *r) HIDDEN;
void dp_signal(struct dp_regs *r)
{
	uint32_t first = (uint32_t)r->rdi;
	struct action act;
	uint64_t set;
	if (dp_withdrawn)
		r->rcx -= SYSCALL_SIZE;
	else if (r->r10 == 8 && r->rax == NR_rt_sigaction && second(&act, sizeof act, r))
		r->rax = (uint64_t)dp_trap_action((int)first, r->rsi ? &act : 0, (struct action *)r->rdx);
	else if (r->r10 == 8 && r->rax == NR_rt_sigprocmask && first <= SIG_SETMASK && second(&set, sizeof set, r))
		r->rax = (uint64_t)change_mask((int)first, r->rsi ? &set : 0, (uint64_t *)r->rdx);
	else if (!wait_unblocked(r))
		r->rcx -= SYSCALL_SIZE;
}
