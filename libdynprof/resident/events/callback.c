/* Callbacks run on stacks of their own: the program's may be a coroutine's of
 * some hundred bytes. A stack is taken from a pool by compare-and-swap; a thread
 * whose stack pointer lies in one is in a callback.
 *
 * A fault in a callback must not end the program. For the signals of faults that
 * the program leaves to the kernel a handler of ours is installed:
 *  1. In a callback it goes on behind the call (dp_on_stack_over). The handler has
 *     a stack of its own, too: the callback's may be at its end, and the thread's
 *     alternate one may be where the program is.
 *  2. Elsewhere the default is put back and the instruction faults again; a
 *     signal that was sent is sent again.
 * The program sees the default when it asks (signals.c).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include "base/context.h"
#include "base/cpu.h"
#include "base/filters.h"
#include "base/pages.h"
#include "base/state.h"
#include "events/callback.h"

enum { STACKS = 8, STACK_SIZE = 256 << 10, ROOM = 16 << 10 };

static struct stacks {
	uint8_t *base;
	uint64_t each; /* guard page, stack, handler's stack, room, area for vector state */
	uint64_t handler, area; /* bytes */
	uint32_t busy; /* one bit each */
	uint32_t faulted;
	uint64_t resume[STACKS], fault[STACKS];
} stacks;

void dp_on_stack(void (*fn)(void *), void *arg, void *top, void *area, uint64_t *resume) HIDDEN;
extern const uint8_t dp_on_stack_over[] HIDDEN;
void dp_fault_restorer(void) HIDDEN;

static int stack_of(uint64_t sp)
{
	uint64_t off = sp - (uint64_t)stacks.base;
	return stacks.base && off < STACKS * stacks.each ? (int)(off / stacks.each) : -1;
}

int dp_in_callback(void) { return stack_of((uint64_t)__builtin_frame_address(0)) >= 0; }

/* ---- faults ------------------------------------------------------------ */

struct action { uint64_t handler, flags, restorer, mask; };
enum { RESTORER = 0x04000000 }; /* SA_RESTORER */
static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

static void on_fault(int sig, siginfo_t *info, uint64_t *context)
{
	uint64_t *g = context + DP_UC_GREGS / 8;
	int i = stack_of(g[DP_REG_RSP]);
	if (i >= 0 && info->si_code > 0) {
		__atomic_fetch_or(&stacks.faulted, 1U << i, __ATOMIC_RELAXED);
		stacks.fault[i] = g[DP_REG_RIP];
		g[DP_REG_RSP] = stacks.resume[i];
		g[DP_REG_RIP] = (uint64_t)dp_on_stack_over;
		g[DP_REG_EFLAGS] &= ~0x40500UL; /* DF, TF, AC */
		return;
	}
	struct action none = {(uint64_t)SIG_DFL, RESTORER, (uint64_t)dp_fault_restorer, 0};
	raw(SYS_rt_sigaction, sig, &none, 0, 8);
	if (info->si_code <= 0)
		raw(SYS_tgkill, raw(SYS_getpid), raw(SYS_gettid), sig);
}

int dp_is_fault_handler(uint64_t handler) { return handler == (uint64_t)on_fault; }

/* Where the default is in force. */
static void handle_faults(void)
{
	for (unsigned i = 0; i < sizeof fault_signals / sizeof *fault_signals; i++) {
		struct action old, ours = {(uint64_t)on_fault, SA_SIGINFO | SA_ONSTACK | RESTORER, (uint64_t)dp_fault_restorer, 0};
		if (ask(SYS_rt_sigaction, fault_signals[i], 0, &old, 8) == 0 && old.handler == (uint64_t)SIG_DFL)
			ask(SYS_rt_sigaction, fault_signals[i], &ours, 0, 8);
	}
}

/* ---- stacks ------------------------------------------------------------ */

long dp_stacks_map(void)
{
	if (stacks.base)
		return 0;
	stacks.area = pages(dp_cpu()->state);
	if (!stacks.area)
		return -EOPNOTSUPP;
	stacks.handler = pages(stacks.area + 2 * DP_PAGE_SIZE);
	stacks.each = DP_PAGE_SIZE + STACK_SIZE + stacks.handler + ROOM + stacks.area;
	long at = ask(SYS_mmap, 0, STACKS * stacks.each, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (failed(at))
		return -ENOMEM;
	for (uint64_t i = 0; i < STACKS; i++)
		ask(SYS_mprotect, at + i * stacks.each, DP_PAGE_SIZE, PROT_NONE);
	__atomic_store_n(&stacks.base, (uint8_t *)at, __ATOMIC_RELEASE);
	handle_faults();
	return 0;
}

/* Other threads' stacks are free in a fork's child. */
void dp_stacks_forked(void)
{
	int i = stack_of((uint64_t)__builtin_frame_address(0));
	stacks.busy = i >= 0 ? 1U << i : 0;
}

static int take(void)
{
	uint32_t busy = __atomic_load_n(&stacks.busy, __ATOMIC_ACQUIRE);
	int i;
	do {
		if (busy == (1U << STACKS) - 1)
			return -1;
		i = __builtin_ctz(~busy);
	} while (!__atomic_compare_exchange_n(&stacks.busy, &busy, busy | 1U << i, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	return i;
}

void *dp_callback_room(uint64_t *size)
{
	int i = stack_of((uint64_t)__builtin_frame_address(0));
	*size = i >= 0 ? ROOM : 0;
	return i >= 0 ? stacks.base + (uint64_t)(i + 1) * stacks.each - stacks.area - ROOM : 0;
}

struct call { void (*fn)(void *); void *arg; stack_t alternate; int changed; };

/* On the callback's stack: from another an alternate stack that is in use cannot
 * be changed. */
static void with_alternate(void *arg)
{
	struct call *c = arg;
	int i = stack_of((uint64_t)__builtin_frame_address(0));
	stack_t ours = {.ss_sp = stacks.base + (uint64_t)i * stacks.each + DP_PAGE_SIZE + STACK_SIZE, .ss_size = stacks.handler};
	c->changed = ask(SYS_sigaltstack, &ours, &c->alternate) == 0;
	c->fn(c->arg);
}

static long run_on(int i, void (*fn)(void *), void *arg, uint64_t *fault)
{
	uint8_t *area = stacks.base + (uint64_t)(i + 1) * stacks.each - stacks.area;
	struct call call = {.fn = fn, .arg = arg};
	dp_on_stack(with_alternate, &call, area - ROOM - stacks.handler, area, &stacks.resume[i]);
	int faulted = __atomic_fetch_and(&stacks.faulted, ~(1U << i), __ATOMIC_RELAXED) >> i & 1;
	*fault = stacks.fault[i];
	if (call.changed) {
		call.alternate.ss_flags &= ~SS_ONSTACK;
		ask(SYS_sigaltstack, &call.alternate, 0);
	}
	__atomic_fetch_and(&stacks.busy, ~(1U << i), __ATOMIC_RELEASE);
	return faulted ? -EFAULT : 0;
}

long dp_call_back(void (*fn)(void *), void *arg, uint64_t *fault)
{
	uint64_t blocked = dp_to_block(), mask;
	if (!__atomic_load_n(&stacks.base, __ATOMIC_ACQUIRE) || dp_in_callback())
		return -EBUSY;
	for (unsigned k = 0; k < sizeof fault_signals / sizeof *fault_signals; k++)
		blocked &= ~(1ULL << (fault_signals[k] - 1));
	int masked = ask(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, &mask, 8) == 0;
	int i = take();
	long err = i < 0 ? -EBUSY : run_on(i, fn, arg, fault);
	if (masked)
		ask(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
	return err;
}
