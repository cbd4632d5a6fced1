/* Adds what plans tell of objects that come later to the table that the program counts into
 * (internal/table/build/append.go, of which each step is the same).
 *
 *  1. Who adds holds the table's word for that, with its thread number. If it dies the kernel
 *     marks it (twin.c, await_turn, says why its list has the word only where that looks
 *     free). Nobody is waited for: then a planner waits.
 *  2. There is room for all, on disk, too: a store to a hole of a full file system is a
 *     signal.
 *  3. The generation becomes odd; entries are stored behind the counts; the counts are,
 *     what is referred to before what refers to it, and blocks, or call sites, last; the generation becomes
 *     even. Where it was odd already, what its adder has left of blocks that do not count is
 *     a planner's to look at. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sys/mman.h>

#include "base/mapped.h"
#include "base/pages.h"
#include "base/state.h"
#include "warm/append.h"
#include "warm/ledger.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* ---- the word ------------------------------------------------------------ */

/* A thread's list of robust futexes (linux/futex.h); libc's, which is empty, and ours. */
struct robust {
	void *next;
	long offset;
	void *pending;
};

int dp_begin_adding(struct dp_adding *a)
{
	a->view = (struct dp_header *)raw(SYS_mremap, dp.table, 0, dp.table->rows.offset, MREMAP_MAYMOVE);
	if (failed((long)a->view)) {
		a->view = 0;
		return 0;
	}
	struct robust *theirs = 0, now = {0}; /* may be anywhere: the kernel looks at it in the end only */
	uint64_t size = 0;
	uint32_t none = 0, *word = &a->view->appender, self = (uint32_t)raw(SYS_gettid);
	int known = !__atomic_load_n(word, __ATOMIC_RELAXED) && raw(SYS_get_robust_list, 0, &theirs, &size) == 0 && (!theirs || dp_read_quietly(&now, theirs, sizeof now));
	if (known && (!theirs || (now.next == theirs && !now.pending))) {
		a->theirs = theirs;
		a->theirs_size = size;
		a->ours[0] = (uint64_t)a->ours; /* an empty list, */
		a->ours[1] = 0;
		a->ours[2] = (uint64_t)word; /* and what is about to be taken */
		raw(SYS_set_robust_list, a->ours, sizeof a->ours);
		if (__atomic_compare_exchange_n(word, &none, self, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return 1;
		raw(SYS_set_robust_list, a->theirs, a->theirs_size);
	}
	raw(SYS_munmap, a->view, dp.table->rows.offset);
	a->view = 0;
	return 0;
}

void dp_end_adding(struct dp_adding *a)
{
	if (!a->view)
		return;
	uint32_t *word = &a->view->appender;
	if (__atomic_exchange_n(word, 0, __ATOMIC_ACQ_REL) & FUTEX_WAITERS)
		raw(SYS_futex, word, FUTEX_WAKE, 1, 0, 0, 0);
	raw(SYS_set_robust_list, a->theirs, a->theirs_size);
	raw(SYS_munmap, a->view, dp.table->rows.offset);
	a->view = 0;
}

uint64_t dp_codes_in(const struct dp_header *h)
{
	const struct dp_object_entry *o = dp_in_table(h, h->objects.offset);
	uint64_t n = 0, end;
	for (uint32_t i = 0; i < h->objects.count; i++)
		if (o[i].code_count && (end = (uint64_t)o[i].codes + o[i].code_count - DP_FIRST_CODE) > n)
			n = end;
	return n;
}

/* ---- room ---------------------------------------------------------------- */

/* Reserves the next n entries. */
static int make_room(const struct dp_header *h, const struct dp_section *s, uint64_t n)
{
	uint64_t from = s->offset + (uint64_t)s->count * s->entry_size, to = from + n * s->entry_size;
	if (s->count > s->capacity || n > s->capacity - s->count || section_end(s) > h->rows.offset)
		return 0;
	from &= ~(uint64_t)(DP_PAGE_SIZE - 1);
	return n == 0 || raw(SYS_madvise, dp_in_table(h, from), pages(to) - from, MADV_POPULATE_WRITE) == 0;
}

static int has_room(const struct dp_warm *w, const struct dp_header *h, const struct dp_ledger_size *n)
{
	uint64_t counters = w->counters - h->counters, functions = w->functions - h->functions.count;
	uint64_t fired = h->flags & DP_FLAG_THRESHOLD ? counters : 0;
	return w->counters <= h->counters_cap && make_room(h, &h->objects, w->count) && make_room(h, &h->functions, functions) &&
	       make_room(h, &h->aliases, n->aliases) && make_room(h, &h->strings, n->strings) && make_room(h, &h->fired, fired) &&
	       make_room(h, &h->blocks, n->blocks) && make_room(h, &h->ways, n->ways) && make_room(h, &h->loops, n->loops) &&
	       make_room(h, &h->sites, n->sites);
}

/* ---- entries ------------------------------------------------------------- */

static void store(uint32_t *to, uint32_t n) { __atomic_store_n(to, n, __ATOMIC_RELEASE); }

int dp_add_objects(const struct dp_warm *w, const struct dp_adding *a)
{
	struct dp_header *h = a->view;
	long room = raw(SYS_mmap, 0, DP_LEDGER_ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(room))
		return 0;
	struct dp_ledger_size n;
	dp_measure_ledgers(w, &n);
	int ok = has_room(w, h, &n) && !(h->generation & 1 && h->blocks.offset);
	if (ok) {
		struct dp_ledger s = {.fd = -1, .mapped = (uint8_t *)h, .room = (uint8_t *)room};
		uint32_t generation = h->generation | 1;
		store(&h->generation, generation);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		dp_begin_ledger(&s, h);
		if (n.blocks || n.sites)
			store(&h->version, n.sites ? DP_VERSION_LATE_SITES : DP_VERSION_LATE);
		dp_put_ledgers(&s, w, h->objects.count, DP_OBJ_LATE);
		dp_put_flows(&s, w);
		store(&h->counters, w->counters);
		store(&h->fired.count, w->counters);
		store(&h->strings.count, s.next_string);
		store(&h->aliases.count, s.next_alias);
		store(&h->objects.count, h->objects.count + w->count);
		store(&h->functions.count, w->functions);
		store(&h->loops.count, h->loops.count + (uint32_t)n.loops);
		store(&h->ways.count, h->ways.count + (uint32_t)n.ways);
		store(&h->blocks.count, h->blocks.count + (uint32_t)n.blocks);
		store(&h->sites.count, h->sites.count + (uint32_t)n.sites);
		store(&h->generation, generation + 1);
	}
	raw(SYS_munmap, room, DP_LEDGER_ROOM);
	return ok;
}
