/* Installing signal handlers: the kernel gets the address of an entry of ours, and
 * who asks for the handler gets the program's. An entry and its handler belong
 * together for good, whatever other threads install meanwhile. The first have
 * entries of their own (signals.S):
 *
 *	dp_handlers[n]  handler        dp_handler_entries + 16*n   leads there
 *
 * All others share one, dp_more_entry, and what tells them apart is with the
 * kernel: the address that a handler returns to, sa_restorer, is that of the
 * handler's record. The kernel hands it out with the handler, in one piece, and
 * the entry puts the program's restorer in its place.
 *
 * Records are never given back. They are found by their hash, and added by a
 * compare-and-swap at the head of their list: no lock, as handlers may install
 * handlers.
 */
#define _GNU_SOURCE
#include "base/filters.h"
#include "base/pieces.h"
#include "base/state.h"
#include "events/callback.h"
#include "signals/entries.h"
#include "signals/handlers.h"
#include "signals/signals.h"
#include "signals/traps.h"

struct record {
	uint64_t handler;  /* first: its slot */
	uint64_t restorer; /* second: signals.S */
	struct record *next;
};

enum { LISTS = 1024 };
static struct record *lists[LISTS];

extern const uint8_t dp_handler_entries[] HIDDEN, dp_more_entry[] HIDDEN;

static int is_entry(uint64_t handler)
{
	return handler - (uint64_t)dp_handler_entries < DP_HANDLERS * DP_ENTRY_SIZE;
}

/* The number of a handler's entry; DP_HANDLERS if all are others'. */
static uint64_t entry_of(uint64_t handler)
{
	uint64_t i = 0;
	dp_entries_are((uint64_t)dp_handler_entries, (uint64_t)dp_more_entry);
	for (; i < DP_HANDLERS; i++) {
		uint64_t is = __atomic_load_n(&dp_handlers[i], __ATOMIC_RELAXED);
		if (is == 0 && __atomic_compare_exchange_n(&dp_handlers[i], &is, handler, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			is = handler;
		if (is == handler)
			break;
	}
	return i;
}

/* The record of a handler with its restorer; 0 if there is no memory for it. */
static struct record *record_of(uint64_t handler, uint64_t restorer)
{
	struct record **list = &lists[(handler >> 4 ^ handler >> 14) % LISTS], *mine = 0;
	struct record *first = __atomic_load_n(list, __ATOMIC_ACQUIRE);
	do {
		for (struct record *r = first; r; r = r->next)
			if (r->handler == handler && r->restorer == restorer)
				return r;
		if (!mine && !(mine = dp_piece(sizeof *mine)))
			return 0;
		*mine = (struct record){handler, restorer, first};
	} while (!__atomic_compare_exchange_n(list, &first, mine, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
	return mine;
}

const uint64_t *dp_slot_of(uint64_t handler)
{
	uint64_t n = entry_of(handler);
	if (n < DP_HANDLERS)
		return &dp_handlers[n];
	const struct record *r = record_of(handler, 0);
	return r ? &r->handler : 0;
}

void dp_give_entry(uint64_t handler) { entry_of(handler); }

/* Puts an entry in place of the program's handler. Without memory for one it
 * stays: it sees stubs. */
static void lead(struct action *a)
{
	uint64_t program = (uint64_t)a->handler, n = entry_of(program);
	if (n < DP_HANDLERS) {
		a->handler = (handler)(dp_handler_entries + n * DP_ENTRY_SIZE);
		return;
	}
	struct record *r = a->flags & SA_RESTORER ? record_of(program, (uint64_t)a->restorer) : 0;
	if (!r)
		return; /* the kernel enters no handler without a restorer */
	a->handler = (handler)dp_more_entry;
	a->restorer = (void (*)(void))r;
}

/* The other way round. */
static void tell(struct action *a)
{
	uint64_t at = (uint64_t)a->handler;
	if (dp_is_fault_handler(at)) {
		*a = (struct action){0};
	} else if (is_entry(at)) {
		a->handler = (handler)dp_handlers[(at - (uint64_t)dp_handler_entries) / DP_ENTRY_SIZE];
	} else if (at == (uint64_t)dp_more_entry) {
		const struct record *r = (const struct record *)a->restorer;
		a->handler = (handler)r->handler;
		a->restorer = (void (*)(void))r->restorer;
	}
}

int dp_is_vfork_child(void) { return ask(SYS_getpid) != (long)dp.pid; }

static void remember(uint64_t bit, int ignored)
{
	int was = (__atomic_load_n(&dp_ignored, __ATOMIC_RELAXED) & bit) != 0;
	if (was == ignored || dp_is_vfork_child())
		return;
	if (ignored)
		__atomic_fetch_or(&dp_ignored, bit, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(&dp_ignored, ~bit, __ATOMIC_RELAXED);
}

long dp_install(long sig, const struct action *act, struct action *old)
{
	struct action ours;
	uint64_t program = act ? (uint64_t)act->handler : 0, bit = sig >= 1 && sig <= 64 ? 1ULL << (sig - 1) : 0;
	if (program > (uint64_t)SIG_IGN)
		__atomic_fetch_or(&dp_handled, bit, __ATOMIC_RELAXED);
	if (program > (uint64_t)SIG_IGN && program != (uint64_t)SIG_ERR && !is_entry(program) && program != (uint64_t)dp_more_entry) {
		ours = *act;
		lead(&ours);
		act = &ours;
	}
	long ret = raw(SYS_rt_sigaction, sig, act, old, 8);
	if (ret == 0 && act)
		remember(bit, program == (uint64_t)SIG_IGN);
	if (ret == 0 && old)
		tell(old);
	return ret;
}

void dp_take_handlers(void)
{
	struct action has;
	for (long sig = 1; sig <= 64; sig++)
		if (ask(SYS_rt_sigaction, sig, 0, &has, 8) == 0 && (uint64_t)has.handler != (uint64_t)SIG_DFL && !(dp_handles_traps && sig == SIGTRAP))
			dp_install(sig, &has, 0);
}
