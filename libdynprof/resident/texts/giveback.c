/* A program that makes its own text writable is about to change it: it switches
 * branches on and off (static keys), hooks functions, relocates. It would find
 * our jumps there, and what it writes would not reach the copies in our stubs.
 * So it gets its text back before the mprotect that makes it writable, a kernel
 * site, is made. Other threads may be running that text.
 *
 *  1. All functions are marked of which a patch or moved code lies in the range,
 *     and those whose patches stand in the bodies of marked ones.
 *  2. Every patch of a marked function goes, wherever it is, and every direct
 *     call to it or in the range. The pages are not written to: others with the
 *     program's bytes, mapped elsewhere, take their place by one mremap. To a
 *     thread that runs there a page changes between two instructions: it finds
 *     none, and waits in the kernel, or one of the two, and the kernel's
 *     interrupt for the other serializes its CPU.
 *  3. Islands, and the jumps to what was evicted for them, go behind
 *     the branches that lead to them, when all threads have run: one that has
 *     just been led there leaves by the next instruction (letrun.c).
 *  4. A function whose body was left to islands goes when they are gone: its
 *     entry would lead into them.
 *  5. The ledger says text-changed.
 *  6. Where that is done over and over all calls of a text go (hooked.c); and when the
 *     slots of the PLT are made writable that they are led past (slots.c).
 * Threads in a stub go on there, in a copy of what was, until they leave it.
 * Kernel sites stay: births and filters must be known. They go, too, where all is
 * given back since we withdraw (withdraw.c), last what handlers return to, which may see
 * an address that is overwritten (kept.c); the ledger stays as it is then, as it is
 * other processes', too. Where a system call that this takes is refused bytes
 * are written in place, if that can be done. Nothing is read before the kernel has said that it can be: the
 * object may have been closed, and anything be in its place, as the stack of a new
 * thread that is not readable yet.
 * What has been changed is in undos.c, which of that goes in change.c, and how pages
 * take others' place in exchange.c.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include "base/filters.h"
#include "base/pages.h"
#include "base/regs.h"
#include "base/state.h"
#include "stubs/arenas.h"
#include "table/entries.h"
#include "table/view.h"
#include "texts/change.h"
#include "texts/exchange.h"
#include "texts/giveback.h"
#include "texts/hooked.h"
#include "texts/letrun.h"
#include "texts/patched.h"
#include "texts/slots.h"

enum { MOST_BYTES = 1 << 20 };

/* Where there are no other pages to be had - a limit of memory, a filter - bytes go
 * where the program's are to be: if nobody else runs there all of them, else where a
 * call leads, as far as CPUs see that change as one. */
static void give_in_place(const struct dp_change *c, const struct dp_undo_text *t, uint32_t first, uint32_t last, uint64_t low, uint64_t high)
{
	enum { WORD = 8 };
	int alone = dp_is_alone();
	if (ask(SYS_mprotect, low, high - low, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
		return;
	for (uint32_t i = first; i <= last; i++) {
		const struct dp_undo undo = dp_undo_of(t, i), *u = &undo;
		uint64_t at = t->start + u->at;
		int as_one = u->kind == DP_UNDO_CALL && u->len == sizeof(uint32_t) && at % WORD <= WORD - sizeof(uint32_t);
		if ((!alone && !as_one) || !dp_goes(c, t, u) || !dp_is_made(c->page, t, u))
			continue;
		if (as_one)
			*(volatile uint32_t *)at = *(const uint32_t *)u->old;
		else
			for (uint32_t k = 0; k < u->len; k++)
				((volatile uint8_t *)at)[k] = u->old[k];
	}
	ask(SYS_mprotect, low, high - low, t->prot);
}

/* The pages for [low, high) with the program's bytes in place of changes first to
 * last; 0 if there are none. */
static uint64_t restored(const struct dp_change *c, const struct dp_undo_text *t, uint32_t first, uint32_t last, uint64_t low, uint64_t high)
{
	uint64_t size = high - low;
	long made = dp_map_anonymous(size);
	if (failed(made))
		return 0;
	dp_copy_words((uint64_t)made, low, size);
	for (uint32_t i = first; i <= last; i++) {
		const struct dp_undo undo = dp_undo_of(t, i), *u = &undo;
		int goes = dp_goes(c, t, u) && dp_is_made(c->page, t, u);
		for (uint32_t k = 0; goes && k < u->len; k++)
			((uint8_t *)made)[t->start + u->at + k - low] = u->old[k];
	}
	return dp_pages_of_text(t, low, (uint64_t)made, size);
}

/* Whole pages, and the changes that lie in them. */
struct run {
	uint64_t low, high; /* high is 0: none */
	uint32_t first, last;
};

/* Puts the program's bytes in place of the changes of a run. */
static void give_run(const struct dp_change *c, const struct dp_undo_text *t, const struct run *r)
{
	struct dp_hooked *h = dp_hooked_text(c, t);
	uint64_t new = restored(c, t, r->first, r->last, r->low, r->high);
	if (!new || !dp_exchange(r->low, new, r->high - r->low))
		give_in_place(c, t, r->first, r->last, r->low, r->high);
	if (h && (r->high <= c->low || r->low >= c->high))
		h->exchanged++;
}

/* Changes that share pages go together. */
static void give_text(const struct dp_change *c, const struct dp_undo_text *t)
{
	const struct dp_hooked *h = dp_hooked_text(c, t);
	const uint64_t *picked = h ? h->picked : 0;
	struct run r = {0};
	for (uint32_t i = dp_next_bit(picked, 0, t->count); i < t->count; i = dp_next_bit(picked, i + 1, t->count)) {
		const struct dp_undo undo = dp_undo_of(t, i), *u = &undo;
		uint64_t at = t->start + u->at, from = at & ~(uint64_t)(DP_PAGE_SIZE - 1);
		if (!dp_goes(c, t, u) || !dp_is_made(c->page, t, u))
			continue;
		if (r.high && (from > r.high || (from == r.high && r.high - r.low >= MOST_BYTES))) {
			give_run(c, t, &r);
			r.high = 0;
		}
		if (!r.high)
			r.first = i, r.low = from;
		r.last = i, r.high = pages(at + u->len);
	}
	if (r.high)
		give_run(c, t, &r);
}

static void give_all(const struct dp_change *c)
{
	struct dp_text_walk w = dp_walk_texts(0, ~0ULL);
	for (const struct dp_undo_text *t; (t = dp_walk_concerned(c, &w));)
		give_text(c, t);
}

static void note_changed(const struct dp_change *c)
{
	const struct dp_header *view = dp_view();
	for (uint64_t i = c->first; view && i <= c->last && i < c->functions; i++)
		if (dp_is_marked(c, (uint32_t)i)) {
			struct dp_function *f = (struct dp_function *)dp_function_at(view, i);
			__atomic_store_n(&f->reason, DP_CHANGED_REASON, __ATOMIC_RELAXED);
			__atomic_store_n(&f->tactic, DP_REFUSED_TACTIC, __ATOMIC_RELEASE);
		}
}

/* Guests first, then their hosts, which may be guests themselves. Where something is
 * refused no host goes. */
static void give(struct dp_change *c)
{
	for (uint32_t left = ~0U, guests = 0; (guests = dp_note_hosts(c)) < left; left = guests) {
		c->later = 0;
		give_all(c);
		if (dp_has_islands(c)) {
			dp_let_all_run();
			c->later = 1;
			give_all(c);
		}
		if (guests == 0)
			return;
	}
}

static void each_text(struct dp_change *c, void (*act)(struct dp_change *, const struct dp_undo_text *))
{
	struct dp_text_walk w = dp_walk_texts(0, ~0ULL);
	for (const struct dp_undo_text *t; (t = dp_walk_concerned(c, &w));)
		act(c, t);
}

static void give_back(struct dp_change *c)
{
	dp_mark_range(c);
	if (!c->marked && !c->calls)
		return;
	each_text(c, dp_list_text);
	dp_mark_guests(c);
	each_text(c, dp_pick);
	give(c);
	each_text(c, dp_went);
	note_changed(c);
}

static uint32_t lock; /* the thread that gives back */

void dp_giveback_forked(void) { lock = 0; }

/* A handler of the thread that has the lock comes here only where a filter lets
 * nobody block signals. */
static int take_lock(void)
{
	enum { PATIENCE = 2000 };
	uint32_t self = (uint32_t)ask(SYS_gettid), holder = 0;
	struct timespec tick = {0, 1000 * 1000};
	for (int i = 0; !__atomic_compare_exchange_n(&lock, &holder, self, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED); i++) {
		if (holder == self || i == PATIENCE)
			return 0;
		holder = 0;
		ask(SYS_nanosleep, &tick, 0);
	}
	return 1;
}

/* What the range concerns, or, with calls_of, the calls of that text. */
static void give_some(uint64_t low, uint64_t high, const struct dp_undo_text *calls_of)
{
	struct dp_page page = DP_NO_PAGE;
	struct dp_change c = {.page = &page, .low = low, .high = high, .calls_of = calls_of, .calls = calls_of != 0};
	uint64_t all = dp_to_block(), mask;
	int blocked = ask(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, 8) == 0;
	if (take_lock()) {
		dp_take_marks(&c);
		give_back(&c);
		__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
	}
	if (blocked)
		ask(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
}

void dp_give_range(uint64_t low, uint64_t high) { give_some(low, high, 0); }

int dp_give_all(void)
{
	struct dp_page page = DP_NO_PAGE;
	struct dp_change c = {.page = &page, .all = 1};
	if (!take_lock())
		return 0;
	if (dp_has_undos()) {
		dp_take_marks(&c);
		give(&c);
		c.returns = dp_is_clean_but_for_returns();
		if (c.returns)
			give_all(&c);
	}
	__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
	return dp_is_clean();
}

static void text_changes(const struct dp_regs *r)
{
	uint64_t low = r->rdi & ~(uint64_t)(DP_PAGE_SIZE - 1), high = low + pages(r->rsi);
	/* It could not be looked at when it is made writable; and a fault would tell of a
	 * call, which shall not go by way of a stub. */
	int hides = !(r->rdx & PROT_EXEC);
	if ((hides || (r->rdx & PROT_WRITE)) && low < high && dp_is_patched(low, high))
		dp_give_range(low, high);
	if (r->rdx & PROT_WRITE)
		for (struct dp_slots *s; low < high && (s = dp_slots_in(low, high)); dp_forget_slots(s))
			give_some(0, 0, s->text);
}

void dp_text_changes(const struct dp_regs *r)
{
	dp_reads();
	text_changes(r);
	dp_has_read();
}
