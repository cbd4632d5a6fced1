/* Loose rows. Under a seccomp filter there may be no more rows to have than were
 * stocked (rows.c), and a program may make any number of threads. Memory of its own
 * it can have as long as it can make threads: their stacks are such memory. So a
 * thread without a row in the table counts in a loose one:
 *
 *  1. Loose rows are listed, and only ever added to the list. Who changes a row's
 *     state from free to taken has it.
 *  2. When its thread ends, or its process (ends.c), the counts are added to a row of
 *     the table on which no thread runs, the collector, by locked instructions. That
 *     happens once, by who makes its state of folding FOLDING. Who ends the process,
 *     and thereby all other threads, waits until it is FOLDED.
 *  3. Until then the table says how many threads count so (HdrLoose): who reads
 *     it does not see their calls, and should the process be killed, nobody will.
 * The list is each process's own: a forked child has a copy, in which its parent's
 * rows are free.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "base/filters.h"
#include "base/lock.h"
#include "base/pages.h"
#include "base/state.h"
#include "rows/chunks.h"
#include "rows/loose.h"
#include "rows/rowlist.h"
#include "rows/rows.h"

enum { FREE, TAKEN };
enum { NOT_FOLDED, FOLDING, FOLDED };

/* In front of the row, whose address is a whole page's. */
struct loose {
	struct loose *next;
	uint32_t state;
	uint32_t folded;
};

static struct loose *first;

static struct loose *of_row(const struct dp_row *row) { return (struct loose *)((uint8_t *)row - DP_PAGE_SIZE); }
static struct dp_row *row_of(struct loose *l) { return (struct dp_row *)((uint8_t *)l + DP_PAGE_SIZE); }
static struct loose *list(void) { return __atomic_load_n(&first, __ATOMIC_ACQUIRE); }

static uint32_t *collector_number(void) { return &dp.table->collector; }

/* The collector, where it is in this process; 0: there is none. */
static struct dp_row *collector(void)
{
	uint32_t number = __atomic_load_n(collector_number(), __ATOMIC_ACQUIRE);
	return number ? dp_row_map(number - 1) : 0;
}

void dp_collector_make(void)
{
	uint32_t none = 0;
	if (collector())
		return;
	struct dp_row *row = dp_row_fresh();
	if (!row)
		return;
	row->state = DP_ROW_FREE;
	if (!__atomic_compare_exchange_n(collector_number(), &none, row->index + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		dp_push_free(row);
}

static struct loose *take_free(void)
{
	for (struct loose *l = list(); l; l = l->next) {
		uint32_t was = FREE;
		if (__atomic_compare_exchange_n(&l->state, &was, TAKEN, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return l;
	}
	return 0;
}

static struct loose *make(void)
{
	long at = ask(SYS_mmap, 0, DP_PAGE_SIZE + pages(dp.row_stride), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (failed(at))
		return 0;
	dp_own((uint64_t)at, DP_PAGE_SIZE + pages(dp.row_stride));
	struct loose *l = (struct loose *)at, *head = list();
	l->state = TAKEN;
	do
		l->next = head;
	while (!__atomic_compare_exchange_n(&first, &head, l, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	return l;
}

struct dp_row *dp_loose_take(uint32_t kind)
{
	struct loose *l = 0;
	if (collector())
		l = take_free();
	if (!l && collector())
		l = make();
	if (!l)
		return 0;
	struct dp_row *row = row_of(l);
	row->state = DP_ROW_BIRTHING;
	row->index = DP_NO_ROW;
	row->self = (uint64_t)row;
	row->kind = kind; /* should the process end now */
	__atomic_store_n(&l->folded, NOT_FOLDED, __ATOMIC_RELEASE);
	__atomic_fetch_add(&dp.table->loose, 1, __ATOMIC_RELAXED);
	return row;
}

int dp_is_loose(uint64_t base)
{
	for (struct loose *l = list(); l; l = l->next)
		if ((uint64_t)row_of(l) == base)
			return 1;
	return 0;
}

static void give_back(struct loose *l) { __atomic_store_n(&l->state, FREE, __ATOMIC_RELEASE); }

void dp_loose_drop(struct dp_row *row) { give_back(of_row(row)); }

/* Its own thread may go on counting meanwhile, if that is not who calls. */
static void fold(struct loose *l)
{
	uint32_t was = NOT_FOLDED;
	struct dp_row *to = collector();
	if (!to || !__atomic_compare_exchange_n(&l->folded, &was, FOLDING, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	uint64_t *from = row_of(l)->counters, *sums = to->counters;
	uint32_t n = dp_row_counters(to) < dp.counters ? dp_row_counters(to) : dp.counters;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t calls = from[i] ? __atomic_exchange_n(&from[i], 0, __ATOMIC_RELAXED) & ~DP_COUNTER_FIRED : 0;
		if (calls)
			__atomic_fetch_add(&sums[i], calls, __ATOMIC_RELAXED);
	}
	__atomic_fetch_sub(&dp.table->loose, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&l->folded, FOLDED, __ATOMIC_RELEASE);
}

/* Until another thread has folded it, which takes a moment; but not for ever: that
 * thread may be stopped, or be this one, in a handler. */
static void await_fold(const struct loose *l)
{
	enum { LONG = 1000 * 1000 * 1000, TRIES = 1 << 20 };
	uint64_t start = dp_now(CLOCK_MONOTONIC);
	for (int i = 0; __atomic_load_n(&l->folded, __ATOMIC_ACQUIRE) == FOLDING; i++) {
		if (i == TRIES || dp_now(CLOCK_MONOTONIC) - start > LONG)
			return;
		if (ask(SYS_sched_yield) != 0)
			__builtin_ia32_pause();
	}
}

void dp_loose_end(struct dp_row *row) { fold(of_row(row)); }

void dp_loose_end_all(const struct dp_row *row)
{
	for (struct loose *l = list(); l; l = l->next) {
		const struct dp_row *r = row_of(l);
		int here = r == row || r->kind == DP_ROW_THREAD || r->pid == dp.pid;
		if (here && __atomic_load_n(&l->state, __ATOMIC_ACQUIRE) == TAKEN)
			fold(l);
	}
	for (struct loose *l = list(); l; l = l->next)
		await_fold(l);
}

static void clear(struct loose *l)
{
	uint64_t *counters = row_of(l)->counters;
	for (uint32_t i = 0; i < dp.counters; i++)
		if (counters[i])
			counters[i] = 0;
}

void dp_loose_forked(const struct dp_row *row)
{
	for (struct loose *l = list(); l; l = l->next) {
		struct dp_row *r = row_of(l);
		if (r == row) {
			r->pid = dp.pid;
			r->state = DP_ROW_LIVE;
		} else if (l->state == TAKEN) {
			clear(l);
			give_back(l);
		}
	}
}

uint64_t dp_calls_now(uint32_t counter, dp_row_finder *at)
{
	uint64_t sum = dp_rows_total(counter, at);
	for (struct loose *l = list(); l; l = l->next)
		if (__atomic_load_n(&l->state, __ATOMIC_ACQUIRE) == TAKEN && counter < dp.counters)
			sum += __atomic_load_n(&row_of(l)->counters[counter], __ATOMIC_RELAXED) & ~DP_COUNTER_FIRED;
	return sum;
}
