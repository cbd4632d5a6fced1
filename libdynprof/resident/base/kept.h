/* What is ours as long as we count, and is neither text's nor an arena: the table,
 * rows, the library itself. A program that takes its place (replaced.c) is left
 * first. */
#ifndef DYNPROF_KEPT_H
#define DYNPROF_KEPT_H

#include <stdint.h>

#include "base/raw.h"

/* Each is mapped once in a process, so whoever maps it has the place for this, and
 * none can be forgotten for want of room. */
struct dp_kept {
	struct dp_kept *next;
	uint64_t low, high;
};
extern struct dp_kept *dp_all_kept HIDDEN;

/* Any thread may add what it has mapped, with a k of its own, once. */
void dp_note_kept(struct dp_kept *k, const void *at, uint64_t size) HIDDEN;

/* Whether one has a byte in [low, high). */
static inline int dp_is_kept(uint64_t low, uint64_t high)
{
	for (const struct dp_kept *k = __atomic_load_n(&dp_all_kept, __ATOMIC_ACQUIRE); k; k = k->next)
		if (k->high > low && k->low < high)
			return 1;
	return 0;
}

#endif
