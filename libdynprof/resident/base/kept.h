/* What is ours as long as we count, and is neither text's nor an arena: the table,
 * rows, the library itself. A program that takes its place (replaced.c) is left
 * first. */
#ifndef DYNPROF_KEPT_H
#define DYNPROF_KEPT_H

#include <stdint.h>

#include "base/raw.h"
#include "base/state.h"

/* Each is mapped once in a process: the chunks of rows, the table, once more as a
 * whole, the row of those without, the reserve, the library. */
enum { DP_MOST_KEPT = DP_CHUNKS + 5 };

struct dp_kept {
	uint64_t low, high; /* high is 0 until both are known */
};
extern struct dp_kept dp_kept[DP_MOST_KEPT] HIDDEN;
extern uint32_t dp_kept_count HIDDEN;

/* Any thread may add what it has mapped. */
void dp_note_kept(const void *at, uint64_t size) HIDDEN;

/* The first from number n on that has a byte in [low, high); DP_MOST_KEPT: none. */
static inline uint32_t dp_next_kept(uint32_t n, uint64_t low, uint64_t high)
{
	uint32_t count = __atomic_load_n(&dp_kept_count, __ATOMIC_ACQUIRE);
	for (; n < count && n < DP_MOST_KEPT; n++)
		if (__atomic_load_n(&dp_kept[n].high, __ATOMIC_ACQUIRE) > low && dp_kept[n].low < high)
			return n;
	return DP_MOST_KEPT;
}

#endif
