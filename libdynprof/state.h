/* What the library keeps in the target: private memory, so that a forked child
 * has its own copy. Everything is set before the first patch is applied. */
#ifndef DYNPROF_STATE_H
#define DYNPROF_STATE_H

#include <stdint.h>
#include "layout.h"
#include "raw.h"

/* Rows are mapped in chunks: chunk 0 holds rows 0 and 1, chunk k rows 2^k to
 * 2^(k+1)-1. A chunk is mapped when its first row is taken. */
enum { DP_CHUNKS = 16, DP_NO_ROW = 0xffffffff };

struct dp_state {
	uint8_t *table;         /* the mapped file, up to its rows */
	uint8_t *chunks[DP_CHUNKS];
	uint8_t *discard;       /* row of threads for which there is no room */
	uint64_t row_stride;    /* bytes */
	uint64_t row_used;      /* bytes of a row that need room */
	uint32_t rows_max;
	uint32_t counters;

	uint32_t pid;
	uint32_t incarnation;   /* number of this process in its fork tree */

	/* Rows this process took and may take again. Lock-free: a signal
	 * handler may fork, and so may another thread. */
	uint64_t free_head;     /* stack: tag << 32 | row + 1 */
	uint32_t owned_head;    /* list: row + 1 */
	uint32_t alive_at_scan; /* rows in use when last looked at */
	uint32_t taken_since;   /* fresh rows taken since then */

	uint64_t threshold_fired; /* uint32_t *, one for each counter; 0 without thresholds */
	int (*clock_gettime)(int, void *); /* of the vdso; 0 if there is none */
};

extern struct dp_state dp HIDDEN;
extern uint8_t dp_have_wrgsbase HIDDEN;

/* slowpath.S */
void dp_cold(void) HIDDEN;
void dp_clone_site(void) HIDDEN;

/* birth.c */
uint8_t *dp_row_at(uint32_t row) HIDDEN;
void dp_rows_start(uint8_t *row0) HIDDEN;

#define dp_u32(base, offset) ((uint32_t *)((uint8_t *)(base) + (offset)))
#define dp_u64(base, offset) ((uint64_t *)((uint8_t *)(base) + (offset)))

#endif
