/* Traps: int3 at entries where no jump finds room (stubgen/entry/trap.go), only on
 * request.
 *
 *  1. Our handler has SIGTRAP from before the first patch on. A trap of ours is
 *     looked up in its arena's list, and its thread goes on in the stub.
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

#include "base/state.h"
#include "base/stub.h"
#include "signals/handlers.h"
#include "signals/signals.h"
#include "signals/sigsites.h"
#include "signals/traps.h"
#include "stubs/arenas.h"

static uint64_t blocked_before; /* TRAP_BIT, if SIGTRAP was blocked at the start */

/* ---- where traps are ------------------------------------------------- */

static uint64_t find_stub(const struct dp_known *k, uint64_t at)
{
	uint64_t low = 0, high = k ? k->traps_count : 0;
	while (low < high) {
		uint64_t middle = (low + high) / 2;
		if (k->traps[middle].at == at)
			return k->traps[middle].to;
		if (k->traps[middle].at < at)
			low = middle + 1;
		else
			high = middle;
	}
	return 0;
}

static uint64_t stub_of(uint64_t at)
{
	dp_reads();
	uint64_t stub = find_stub(dp_arena_of_text(at), at);
	dp_has_read();
	return stub;
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
	if (info->si_code == SI_KERNEL && *(const uint8_t *)(*rip - DP_INT3_SIZE) == DP_OP_INT3)
		*rip -= DP_INT3_SIZE;
	else
		queue_again(signal, info);
}

/* A SIGTRAP that is not ours. Sent by somebody, it may be blocked or ignored.
 * Returns the slot of the program's handler if that has to run. */
static __attribute__((noinline)) const uint64_t *of_program(int signal, siginfo_t *info, ucontext_t *u)
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
	return dp_slot_of((uint64_t)a.handler);
}

/* The stub of the int3 that ended at rip. A debugger that passes the signal on
 * has put the thread back in front of it; but there it is, too, behind an int3
 * of the program's own. */
static uint64_t stub_of_int3(uint64_t rip)
{
	uint64_t stub = stub_of(rip - DP_INT3_SIZE);
	if (!stub && (stub = stub_of(rip)) && *(const uint8_t *)(rip - DP_INT3_SIZE) == DP_OP_INT3)
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
	const uint64_t *slot = of_program(signal, info, u);
	if (slot)
		dp_enter_handler(signal, info, context, slot); /* a jump: its frame is where it would be */
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
