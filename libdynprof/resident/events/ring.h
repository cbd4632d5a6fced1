/* Hot events, and the ring in which they wait. */
#ifndef DYNPROF_RING_H
#define DYNPROF_RING_H

#include <stdint.h>

#include "base/raw.h"

/* No slot of the table's events. */
#define DP_NO_SLOT (~0ULL)

/* An event for the translator. */
struct dp_hot {
	uint32_t counter, pid, tid, reserved;
	uint64_t slot; /* of its record */
	uint64_t calls;
};

/* Any thread at any time may put and take. */
int dp_ring_put(const struct dp_hot *e) HIDDEN;
int dp_ring_take(struct dp_hot *e) HIDDEN;
void dp_ring_begin(void) HIDDEN;

#endif
