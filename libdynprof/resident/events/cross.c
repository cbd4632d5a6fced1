/* A row's counter has reached its function's threshold. */
#define _GNU_SOURCE
#include <time.h>

#include "base/clock.h"
#include "base/filters.h"
#include "base/hooks.h"
#include "base/state.h"
#include "events/ring.h"
#include "rows/chunks.h"
#include "rows/loose.h"
#include "rows/rowlist.h"
#include "rows/rows.h"
#include "stubs/redirect.h"
#include "stubs/switch.h"
#include "table/awaited.h"
#include "table/entries.h"

/* Who counts. */
struct who { uint32_t row, pid, tid; };

static struct who self(void)
{
	struct who w = {0, dp.pid, 0};
	if (dp.shared) { /* nobody noted a fork */
		long pid = ask(SYS_getpid);
		w.pid = failed(pid) ? 0 : (uint32_t)pid;
	} else {
		__asm__ volatile("movl %%gs:%c1, %0" : "=r"(w.row) : "i"(DP_ROW_INDEX));
		__asm__ volatile("movl %%gs:%c1, %0" : "=r"(w.tid) : "i"(DP_ROW_TID));
	}
	if (w.tid == 0) { /* our parent has not stored it yet */
		long own = ask(SYS_gettid);
		w.tid = failed(own) ? 0 : (uint32_t)own;
	}
	return w;
}

/* Appends a record and returns its slot. Its sequence number is stored last, so
 * that a reader who sees the number sees the record. */
static uint64_t record(const struct dp_hot *e, uint32_t row)
{
	uint64_t slot = __atomic_fetch_add(&dp.table->events_head, 1, __ATOMIC_ACQ_REL);
	if (slot >= dp.table->events.capacity) {
		__atomic_fetch_add(&dp.table->events_lost, 1, __ATOMIC_RELAXED);
		return DP_NO_SLOT;
	}
	struct dp_event *event = dp_event_at(dp.table, slot);
	event->time = dp_now(CLOCK_MONOTONIC);
	event->count = e->calls;
	event->counter = e->counter;
	event->row = row;
	event->pid = e->pid;
	event->tid = e->tid;
	__atomic_store_n(&event->seq, slot + 1, __ATOMIC_RELEASE);
	return slot;
}

/* Marks the counter of the row that this thread counts in, by one instruction,
 * so that a signal handler's counts are not lost, and no other thread's where
 * all share the row. */
static void mark(uint32_t counter)
{
	uint64_t offset = DP_ROW_COUNTERS + 8 * (uint64_t)counter;
	if (dp.shared)
		__asm__ volatile("lock btsq $63, (%0)" : : "r"((uint64_t)dp_row_at(0) + offset) : "memory", "cc");
	else
		__asm__ volatile("btsq $63, %%gs:(%0)" : : "r"(offset) : "memory", "cc");
}

/* Whether the caller has the event: the first to change the fired word. */
static int claim(uint32_t counter, uint64_t cold)
{
	uint32_t *fired = (uint32_t *)dp.threshold_fired + counter, armed = DP_FIRED_ARMED;
	struct dp_stub s;
	if (__atomic_compare_exchange_n(fired, &armed, DP_FIRED_DONE, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return 1;
	return armed == DP_FIRED_LAP && dp_stub_of_cold(cold, counter, &s) && dp_claim_lap(&s);
}

/* Runs on the thread that counted, before the function's own instructions; cold is
 * in the cold block that it came by.
 *  1. The row's counter gets its top bit: its check will not lead here again.
 *  2. The first row to set the function's fired word has the event. */
void dp_cross(uint32_t counter, uint64_t cold) HIDDEN;
void dp_cross(uint32_t counter, uint64_t cold)
{
	mark(counter);
	if (dp_withdrawn || !claim(counter, cold))
		return;
	dp_turn_hot(cold);
	dp_awaited_called(counter);
	struct who w = self();
	struct dp_hot e = {counter, w.pid, w.tid, 0, DP_NO_SLOT, dp_calls_now(counter, dp_row_at)};
	e.slot = record(&e, w.row);
	if (dp.translator)
		dp_hooks.tell(&e);
}
