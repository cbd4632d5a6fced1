/* Traps: int3 at entries where no jump finds room (stubgen/trap.go), only on
 * request.
 *
 *  1. Our handler has SIGTRAP from before the first patch on. A trap of ours is
 *     looked up in the arenas' lists, and its thread goes on in the stub.
 *  2. So that the handler stays, and no thread blocks SIGTRAP (the kernel kills
 *     at a trap then), the system calls that could change that are patched:
 *     signal sites (sigsites.c). What the program asks for is remembered and
 *     told when it asks back.
 *  3. A SIGTRAP that is not ours does what the program asked for.
 * Everything here runs in signal handlers and in any thread: no lock, and raw
 * system calls only.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "session.h"
#include "signals.h"
#include "state.h"
#include "traps.h"


enum { OP_INT3 = 0xcc };

uint8_t dp_handles_traps HIDDEN;
static uint64_t blocked_before; /* TRAP_BIT, if SIGTRAP was blocked at the start */

/* ---- where traps are ------------------------------------------------- */

/* The traps of an arena. The list of these only grows at its head: where a
 * library was closed and another lies there now, the newer is found. */
struct traps {
	const struct traps *next;
	uint64_t low, high; /* the first and the last trap */
	const struct dp_trap *list;
	uint64_t count;
};

static const struct traps *all_traps;

static uint64_t stub_of(uint64_t at)
{
	const struct traps *t = __atomic_load_n(&all_traps, __ATOMIC_ACQUIRE);
	for (; t; t = t->next) {
		uint64_t low = 0, high = at < t->low || at > t->high ? 0 : t->count;
		while (low < high) {
			uint64_t middle = (low + high) / 2;
			if (t->list[middle].at == at)
				return t->list[middle].to;
			if (t->list[middle].at < at)
				low = middle + 1;
			else
				high = middle;
		}
	}
	return 0;
}

/* Makes the traps of new arenas known, before they are patched in. */
int dp_traps_add(const struct dp_ctl *ctl)
{
	static struct traps *room, *end; /* a page at a time */
	for (uint32_t i = 0; i < ctl->arenas_count; i++) {
		const struct dp_arena *a = &ctl->arenas[i];
		if (!a->traps_count)
			continue;
		if (room == end) {
			long at = raw(SYS_mmap, 0, DP_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (failed(at))
				return 0;
			room = (struct traps *)at;
			end = room + DP_PAGE_SIZE / sizeof *room;
		}
		struct traps *t = room++;
		t->list = (const struct dp_trap *)a->traps;
		t->count = a->traps_count;
		t->low = t->list[0].at;
		t->high = t->list[t->count - 1].at;
		t->next = all_traps;
		__atomic_store_n(&all_traps, t, __ATOMIC_RELEASE);
	}
	return 1;
}

/* ---- the handler ------------------------------------------------------ */

/* The signal comes again when the handler returns, as if it were the first
 * time. All signals are blocked until then. */
static void queue_again(int signal, siginfo_t *info)
{
	long pid = raw(SYS_getpid);
	if (info->si_code == SI_TKILL || info->si_code > 0)
		raw(SYS_rt_tgsigqueueinfo, pid, raw(SYS_gettid), signal, info);
	else
		raw(SYS_rt_sigqueueinfo, pid, signal, info);
}

/* The program dies of the trap, as it would have: its int3 runs again, which no
 * process survives, or the signal comes again. */
static void by_default(int signal, siginfo_t *info, ucontext_t *u)
{
	struct action none = {0};
	greg_t *rip = &u->uc_mcontext.gregs[REG_RIP];
	raw(SYS_rt_sigaction, signal, &none, 0, 8);
	if (info->si_code == SI_KERNEL && *(const uint8_t *)(*rip - 1) == OP_INT3)
		--*rip;
	else
		queue_again(signal, info);
}

/* A SIGTRAP that is not ours. Sent by somebody, it may be blocked or ignored.
 * Returns the program's handler if that has to run. */
static __attribute__((noinline)) handler of_program(int signal, siginfo_t *info, ucontext_t *u)
{
	int sent = info->si_code <= 0;
	uint64_t *mask = (uint64_t *)&u->uc_sigmask;
	struct action a = dp_wish();
	if (sent && dp_trap_blocked()) {
		*mask |= TRAP_BIT; /* now it is blocked indeed */
		queue_again(signal, info);
		return 0;
	}
	if (a.handler == (handler)(void *)SIG_IGN && sent)
		return 0;
	if (a.handler == (handler)(void *)SIG_DFL || a.handler == (handler)(void *)SIG_IGN || dp_trap_blocked()) {
		by_default(signal, info, u);
		return 0;
	}
	if (a.flags & SA_RESETHAND) {
		struct action reset = a;
		reset.handler = (handler)(void *)SIG_DFL;
		dp_set_wish(&reset);
	}
	uint64_t blocked = (*mask | a.mask) & ~TRAP_BIT;
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, 0, 8);
	return (handler)dp_entry_of((uint64_t)a.handler);
}

/* The stub of the int3 that ended at rip. A debugger that passes the signal on
 * has put the thread back in front of it; but there it is, too, behind an int3
 * of the program's own. */
static uint64_t stub_of_int3(uint64_t rip)
{
	uint64_t stub = stub_of(rip - 1);
	if (!stub && (stub = stub_of(rip)) && *(const uint8_t *)(rip - 1) == OP_INT3)
		return 0;
	return stub;
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	greg_t *rip = &u->uc_mcontext.gregs[REG_RIP];
	uint64_t stub = info->si_code == SI_KERNEL ? stub_of_int3((uint64_t)*rip) : 0;
	if (stub) {
		*rip = (greg_t)stub;
		return;
	}
	handler h = of_program(signal, info, u);
	if (h)
		h(signal, info, context); /* a jump: its frame is where it would be */
}

/* Takes SIGTRAP over. All signals are blocked in the handler: none comes upon
 * its frame. */
int dp_traps_begin(void)
{
	struct action ours = {on_trap, SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_RESTORER, dp_trap_return, ~0ULL};
	uint64_t trap = TRAP_BIT, mask = 0;
	struct action was;
	if (raw(SYS_rt_sigaction, SIGTRAP, &ours, &was, 8) != 0)
		return 0;
	dp_set_wish(&was);
	dp_handles_traps = 1;
	raw(SYS_rt_sigprocmask, SIG_BLOCK, 0, &mask, 8);
	blocked_before = mask & TRAP_BIT;
	dp_set_trap_blocked(blocked_before != 0);
	return raw(SYS_rt_sigprocmask, SIG_UNBLOCK, &trap, 0, 8) == 0;
}

/* Nothing is counted after all; there may be no row any more. */
void dp_traps_end(void)
{
	if (!dp_handles_traps)
		return;
	struct action was = dp_wish();
	raw(SYS_rt_sigprocmask, SIG_BLOCK, &blocked_before, 0, 8);
	raw(SYS_rt_sigaction, SIGTRAP, &was, 0, 8);
	dp_handles_traps = 0;
}
