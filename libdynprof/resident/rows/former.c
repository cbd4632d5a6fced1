/* What the owners of a row had, one after the other: their calls stay in the row. */
#define _GNU_SOURCE
#include "base/filters.h"
#include "base/own.h"
#include "base/state.h"
#include "rows/former.h"
#include "rows/rows.h"

/* Calls that n counters hold. */
static uint64_t sum(const uint64_t *counters, uint64_t n)
{
	uint64_t calls = 0;
	for (uint64_t i = 0; i < n; i++)
		calls += __atomic_load_n(&counters[i], __ATOMIC_RELAXED) & ~DP_COUNTER_FIRED;
	return calls;
}

/* Calls in the counters [n, end) of a row. A forked process may have loaded
 * objects that this one has not; its counters for them lie behind ours, and
 * where they are holes of a full file system a load would raise SIGBUS. */
__attribute__((noinline)) static uint64_t sum_quietly(struct dp_row *row, uint64_t n, uint64_t end)
{
	enum { CHUNK = 32 }; /* this may be a small stack */
	uint64_t calls = 0;
	long task = own_task();
	for (; n < end; n += CHUNK) {
		uint64_t copy[CHUNK], size = 8 * (end - n < CHUNK ? end - n : CHUNK);
		struct { void *base; uint64_t len; } to = {copy, size}, from = {&row->counters[n], size};
		long got = ask(SYS_process_vm_readv, task, &to, 1, &from, 1, 0);
		if (!failed(got))
			calls += sum(copy, (uint64_t)got / 8);
	}
	return calls;
}

/* Whether there are counters that are no calls, but for call sites' of what was there at the start:
 * those of what came later are behind its functions', once for each dlopen. */
static int has_others(const struct dp_header *table)
{
	return table->blocks.offset || (table->sites.offset && table->counters > (uint64_t)table->blocks_first + table->blocks_count);
}

/* Calls that the row holds. Those of call sites are counted by their callees, too. */
static uint64_t calls_of(struct dp_row *row)
{
	uint64_t ours = dp.counters, all = dp.table->counters, first = dp.table->blocks_first, behind = first + dp.table->blocks_count;
	if (behind == first || behind > ours)
		first = behind = ours;
	uint64_t calls = sum(row->counters, first) + sum(row->counters + behind, ours - behind);
	if (all > ours)
		calls += sum_quietly(row, ours, all);
	return calls;
}

/* Adding up 32,768 counters takes some 20 us. Where there are more, making a
 * thread would cost twice what it does, and the row's owners are not told apart. */
enum { MOST_ADDED_UP = 32768 };

/* Notes what the row's last owner has counted, who is gone: its calls stay in
 * the row, and the next owner counts on top. */
void dp_note_former(struct dp_row *row)
{
	if (dp.table->counters - dp.table->blocks_count > MOST_ADDED_UP || has_others(dp.table))
		row->base = DP_MANY_OWNERS;
	uint64_t from = row->base;
	if (from == DP_MANY_OWNERS)
		return;
	uint64_t to = calls_of(row);
	if (to == from)
		return;
	uint64_t slot = __atomic_fetch_add(&dp.table->formers_head, 1, __ATOMIC_RELAXED);
	if (slot < dp.table->formers.capacity) {
		struct dp_former *note = (struct dp_former *)dp_in_table(dp.table, dp.table->formers.offset) + slot;
		int process = row->kind == DP_ROW_PROCESS;
		note->from = from;
		note->to = to;
		note->pid = row->pid;
		note->tid = row->tid;
		note->incarnation = process ? row->incarnation : row->owner;
		__atomic_store_n(&note->row, row->index + 1, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&row->base, to, __ATOMIC_RELEASE);
}
