/* Where the heap is that brk(2) makes larger, and the first thread's stack. */
#ifndef DYNPROF_BRK_H
#define DYNPROF_BRK_H

#include <stdint.h>

#include "base/raw.h"

/* Addresses, high excluded; low is 0 if nobody tells. */
struct dp_extent {
	uint64_t low, high;
};

/* From its beginning up to memory of ours, and 4 GB of it at most. */
struct dp_extent dp_heap(void) HIDDEN;
/* As low as its limit (RLIMIT_STACK) lets it grow now, and 4 GB of it at most. */
struct dp_extent dp_stack(void) HIDDEN;

#endif
