/* What the library keeps in the target: private memory, so that a forked child
 * has its own copy. Everything is set before the first patch is applied. */
#ifndef DYNPROF_STATE_H
#define DYNPROF_STATE_H

#include <stdint.h>
#include "base/layout.h"
#include "base/raw.h"

/* Rows are mapped in chunks: chunk 0 holds rows 0 and 1, chunk k rows 2^k to
 * 2^(k+1)-1. A chunk is mapped when its first row is taken. */
enum { DP_CHUNKS = 16, DP_NO_ROW = 0xffffffff };

struct dp_state {
	struct dp_header *table; /* the mapped file, up to its rows */
	uint8_t *chunks[DP_CHUNKS];
	struct dp_row *discard; /* row of threads for which there is no room */
	uint64_t row_stride;    /* bytes */
	uint64_t row_used;      /* bytes of a row that need room */
	uint32_t rows_max;
	uint32_t counters;

	uint32_t pid;
	uint32_t incarnation;   /* number of this process in its fork tree */

	uint8_t *reserve;       /* if it is kept (run --control) */
	uint64_t reserve_size;

	uint32_t shared;        /* all threads and processes count into row 0 */

	int translator;         /* all stubs are redirectable */
	uint64_t threshold_fired; /* uint32_t *, one for each counter; 0 without thresholds */
	int (*clock_gettime)(int, void *); /* of the vdso; 0 if there is none */
};

extern struct dp_state dp HIDDEN;
extern uint8_t dp_have_wrgsbase HIDDEN;
extern uint8_t dp_handles_traps HIDDEN; /* SIGTRAP is (traps.c) */
/* Not 0 once code of ours may make no system call on the program's threads any more
 * (withdraw.c). As wide as a register: slowpath.S. */
extern uint64_t dp_withdrawn HIDDEN;

/* Nothing is counted, or this process has become none of ours: a table is
 * mapped in all that are; or we have left it. */
static inline int dp_is_off(void) { return !dp.table || dp_withdrawn; }

/* The program may have forbidden itself to read the time-stamp counter (PR_SET_TSC,
 * seccomp's strict mode). */
extern int dp_no_tsc HIDDEN;
/* Objects that come now are ours, and not counted. */
extern int dp_own_objects HIDDEN;
/* Whether counting has ended (gs.c). */
int dp_stopped(void) HIDDEN;

/* Where the room of a section ends, in the table. */
static inline uint64_t section_end(const struct dp_section *s) { return s->offset + (uint64_t)s->capacity * s->entry_size; }

/* What is that many bytes from the table's start. */
static inline void *dp_in_table(const struct dp_header *table, uint64_t offset) { return (uint8_t *)table + offset; }

#endif
