/* What the owners of a row had, one after the other: their calls stay in the row. */
#define _GNU_SOURCE
#include "base/filters.h"
#include "base/state.h"
#include "rows/rows.h"

/* Calls that n counters hold. */
static uint64_t sum(const uint8_t *counters, uint64_t n)
{
	uint64_t calls = 0;
	for (uint64_t i = 0; i < n; i++)
		calls += __atomic_load_n((const uint64_t *)counters + i, __ATOMIC_RELAXED) & ~DP_COUNTER_FIRED;
	return calls;
}

/* Calls in the counters [n, end) of a row. A forked process may have loaded
 * objects that this one has not; its counters for them lie behind ours, and
 * where they are holes of a full file system a load would raise SIGBUS. */
__attribute__((noinline)) static uint64_t sum_quietly(uint8_t *row, uint64_t n, uint64_t end)
{
	enum { CHUNK = 32 }; /* this may be a small stack */
	uint64_t calls = 0;
	for (; n < end; n += CHUNK) {
		uint64_t copy[CHUNK], size = 8 * (end - n < CHUNK ? end - n : CHUNK);
		struct { void *base; uint64_t len; } to = {copy, size}, from = {row + DP_ROW_COUNTERS + 8 * n, size};
		long got = ask(SYS_process_vm_readv, dp.pid, &to, 1, &from, 1, 0);
		if (!failed(got))
			calls += sum((const uint8_t *)copy, (uint64_t)got / 8);
	}
	return calls;
}

/* Calls that the row holds. */
static uint64_t calls_of(uint8_t *row)
{
	uint64_t ours = dp.counters, all = *dp_u32(dp.table, DP_HDR_COUNTERS);
	uint64_t calls = sum(row + DP_ROW_COUNTERS, ours);
	if (all > ours)
		calls += sum_quietly(row, ours, all);
	return calls;
}

/* Adding up 32,768 counters takes some 20 us. Where there are more, making a
 * thread would cost twice what it does, and the row's owners are not told apart. */
enum { MOST_ADDED_UP = 32768 };

/* Notes what the row's last owner has counted, who is gone: its calls stay in
 * the row, and the next owner counts on top. */
void dp_note_former(uint8_t *row)
{
	if (*dp_u32(dp.table, DP_HDR_COUNTERS) > MOST_ADDED_UP)
		*dp_u64(row, DP_ROW_BASE) = DP_MANY_OWNERS;
	uint64_t from = *dp_u64(row, DP_ROW_BASE);
	if (from == DP_MANY_OWNERS)
		return;
	uint64_t to = calls_of(row);
	if (to == from)
		return;
	uint64_t slot = __atomic_fetch_add(dp_u64(dp.table, DP_HDR_FORMERS_HEAD), 1, __ATOMIC_RELAXED);
	if (slot < *dp_u32(dp.table, DP_HDR_FORMERS + DP_SEC_CAPACITY)) {
		uint8_t *note = dp.table + *dp_u64(dp.table, DP_HDR_FORMERS + DP_SEC_OFFSET) + slot * DP_FM_ENTRY_SIZE;
		int process = *dp_u32(row, DP_ROW_KIND) == DP_ROW_PROCESS;
		*dp_u64(note, DP_FM_FROM) = from;
		*dp_u64(note, DP_FM_TO) = to;
		*dp_u32(note, DP_FM_PID) = *dp_u32(row, DP_ROW_PID);
		*dp_u32(note, DP_FM_TID) = *dp_u32(row, DP_ROW_TID);
		*dp_u32(note, DP_FM_INCARNATION) = *dp_u32(row, process ? DP_ROW_INCARNATION : DP_ROW_OWNER);
		__atomic_store_n(dp_u32(note, DP_FM_ROW), *dp_u32(row, DP_ROW_INDEX) + 1, __ATOMIC_RELEASE);
	}
	__atomic_store_n(dp_u64(row, DP_ROW_BASE), to, __ATOMIC_RELEASE);
}
