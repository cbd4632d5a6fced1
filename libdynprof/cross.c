/* A row's counter has reached its function's threshold. */
#include <time.h>

#include "rows.h"
#include "state.h"

static uint64_t now(void)
{
	struct timespec t = {0, 0};
	if (dp.clock_gettime)
		dp.clock_gettime(CLOCK_MONOTONIC, &t);
	else
		raw(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The calls that all rows mapped here have counted. */
static uint64_t total(uint32_t counter)
{
	uint64_t sum = 0;
	uint32_t used = __atomic_load_n(dp_u32(dp.table, DP_HDR_ROWS_USED), __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < used && i < dp.rows_max; i++) {
		uint8_t *row = dp_row_at(i);
		if (row && __atomic_load_n(dp_u32(row, DP_ROW_STATE), __ATOMIC_ACQUIRE) != DP_ROW_NEVER)
			sum += __atomic_load_n(dp_u64(row, DP_ROW_COUNTERS + 8 * (uint64_t)counter), __ATOMIC_RELAXED) & ~DP_COUNTER_FIRED;
	}
	return sum;
}

/* Appends a record. Its sequence number is stored last, so that a reader who
 * sees the number sees the record. */
static void record(uint32_t counter, uint32_t row, uint32_t pid, uint32_t tid)
{
	uint64_t slot = __atomic_fetch_add(dp_u64(dp.table, DP_HDR_EVENTS_HEAD), 1, __ATOMIC_ACQ_REL);
	if (slot >= *dp_u32(dp.table, DP_HDR_EVENTS + DP_SEC_CAPACITY)) {
		__atomic_fetch_add(dp_u64(dp.table, DP_HDR_EVENTS_LOST), 1, __ATOMIC_RELAXED);
		return;
	}
	uint8_t *event = dp.table + *dp_u64(dp.table, DP_HDR_EVENTS + DP_SEC_OFFSET) + slot * DP_EV_ENTRY_SIZE;
	*dp_u64(event, DP_EV_TIME) = now();
	*dp_u64(event, DP_EV_COUNT) = total(counter);
	*dp_u32(event, DP_EV_COUNTER) = counter;
	*dp_u32(event, DP_EV_ROW) = row;
	*dp_u32(event, DP_EV_PID) = pid;
	*dp_u32(event, DP_EV_TID) = tid;
	__atomic_store_n(dp_u64(event, DP_EV_SEQ), slot + 1, __ATOMIC_RELEASE);
}

/* Runs on the thread that counted, before the function's own instructions.
 *  1. The row's counter gets its top bit: this row will not come here again.
 *     One instruction, so that a signal handler's counts are not lost.
 *  2. The first row to set the function's fired word has the event. */
void dp_cross(uint32_t counter) HIDDEN;
void dp_cross(uint32_t counter)
{
	uint64_t offset = DP_ROW_COUNTERS + 8 * (uint64_t)counter;
	__asm__ volatile("btsq $63, %%gs:(%0)" : : "r"(offset) : "memory", "cc");
	uint32_t *fired = (uint32_t *)dp.threshold_fired + counter, armed = 0;
	if (!__atomic_compare_exchange_n(fired, &armed, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return;
	uint32_t row, pid, tid;
	__asm__ volatile("movl %%gs:%c1, %0" : "=r"(row) : "i"(DP_ROW_INDEX));
	__asm__ volatile("movl %%gs:%c1, %0" : "=r"(tid) : "i"(DP_ROW_TID));
	pid = dp.pid;
	if (tid == 0) /* our parent has not stored it yet */
		tid = (uint32_t)raw(SYS_gettid);
	record(counter, row, pid, tid);
}
