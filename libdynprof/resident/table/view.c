/* The parts of the table that counting does not need. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "base/filters.h"
#include "base/kept.h"
#include "base/state.h"
#include "rows/chunks.h"
#include "rows/rowlist.h"
#include "rows/rows.h"
#include "table/view.h"

static struct dp_header *view;

struct dp_header *dp_view(void)
{
	struct dp_header *v = __atomic_load_n(&view, __ATOMIC_ACQUIRE), *none = 0;
	if (v || dp_is_off())
		return v;
	uint64_t size = dp.table->rows.offset;
	long at = ask(SYS_mremap, dp.table, 0, size, MREMAP_MAYMOVE); /* the file again, as far as size reaches */
	if (failed(at))
		return 0;
	if (__atomic_compare_exchange_n(&view, &none, (struct dp_header *)at, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		static struct dp_kept kept;
		dp_note_kept(&kept, (const void *)at, size);
		return (struct dp_header *)at;
	}
	ask(SYS_munmap, at, size); /* another thread was first */
	return none;
}

/* The baseline that a value of HdrBaseline means. */
static struct dp_baseline *baseline_at(const struct dp_header *v, uint64_t word)
{
	uint64_t number = (word & 0xff) - 1;
	if (number >= v->baselines.capacity)
		return 0;
	return dp_in_table(v, v->baselines.offset + number * v->baselines.entry_size);
}

uint64_t dp_baseline(const struct dp_header *v, uint32_t counter)
{
	const uint64_t *word = &v->baseline;
	uint64_t before, calls;
	do {
		before = __atomic_load_n(word, __ATOMIC_ACQUIRE);
		const struct dp_baseline *b = before ? baseline_at(v, before) : 0;
		calls = b && counter < b->counters ? b->counts[counter] : 0;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != before);
	return calls;
}

/* ---- reset: internal/table/baseline.go has the protocol ---------------- */

static void give(struct dp_header *v, uint64_t number)
{
	__atomic_fetch_and(&v->baselines_taken, ~(1U << number), __ATOMIC_RELEASE);
}

/* Adds the row to the baseline; returns its calls. */
static uint64_t add_row(uint64_t *counts, const struct dp_row *row, uint32_t counters)
{
	const uint64_t *counter = row->counters;
	uint32_t n = dp_row_counters(row) < counters ? dp_row_counters(row) : counters;
	uint64_t calls = 0;
	for (uint32_t c = 0; c < n; c++) {
		uint64_t now = __atomic_load_n(&counter[c], __ATOMIC_RELAXED) & ~DP_COUNTER_FIRED;
		counts[c] += now;
		calls += now;
	}
	return calls;
}

static long write_baseline(struct dp_header *v, struct dp_baseline *b)
{
	uint32_t counters = v->counters;
	uint32_t used = __atomic_load_n(&v->rows_used, __ATOMIC_ACQUIRE);
	uint32_t n = used < dp.rows_max ? used : dp.rows_max;
	uint64_t *counts = b->counts;
	uint64_t *rows = counts + v->counters_cap;
	uint64_t from = ((uint64_t)rows - (uint64_t)b) & ~(uint64_t)(DP_PAGE_SIZE - 1); /* holes may lie before it */
	uint64_t to = (uint64_t)(rows + n) - (uint64_t)b;
	if (!dp_make_room(b, DP_BL_COUNTS + 8 * (uint64_t)counters) || !dp_make_room((uint8_t *)b + from, to - from))
		return -ENOSPC;
	for (uint32_t i = 0; i < counters; i++)
		counts[i] = 0;
	for (uint32_t i = 0; i < n; i++)
		rows[i] = 0;
	struct dp_walk w = {dp_row_map, 0, 0};
	for (struct dp_row *row; (row = dp_walk(&w));)
		if (row->index < n)
			rows[row->index] = add_row(counts, row, counters);
	b->time = dp_now(CLOCK_REALTIME);
	b->counters = counters;
	b->rows = n;
	return 0;
}

long dp_reset(struct dp_header *v)
{
	uint32_t *taken = &v->baselines_taken, now = __atomic_load_n(taken, __ATOMIC_ACQUIRE);
	uint32_t ticket = __atomic_add_fetch(&v->baseline_tickets, 1, __ATOMIC_ACQ_REL), number;
	do {
		number = now == ~0U ? 32 : (uint32_t)__builtin_ctz(~now);
		if (number >= v->baselines.capacity || number >= 32)
			return -EBUSY;
	} while (!__atomic_compare_exchange_n(taken, &now, now | 1U << number, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	struct dp_baseline *b = baseline_at(v, number + 1);
	long err = b ? write_baseline(v, b) : -EBUSY;
	if (err) {
		give(v, number);
		return err;
	}
	__atomic_store_n(&v->version, DP_VERSION_RESET, __ATOMIC_RELEASE);
	uint64_t *word = &v->baseline, old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	do {
		if (old && (int32_t)((uint32_t)(old >> 8) - ticket) > 0) {
			give(v, number); /* a later reset covers ours */
			return 0;
		}
	} while (!__atomic_compare_exchange_n(word, &old, (uint64_t)ticket << 8 | (number + 1), 0, __ATOMIC_ACQ_REL,
					      __ATOMIC_ACQUIRE));
	if (old)
		give(v, (old & 0xff) - 1);
	return 0;
}
