/* How control went in a function whose blocks are counted (internal/table/blocks.go). */
#ifndef DYNPROF_FLOW_H
#define DYNPROF_FLOW_H

#include <stdint.h>

#include "base/layout.h"
#include "base/raw.h"

/* Its blocks, ways and loops in the table, and how often blocks ran and ways were taken. */
struct dp_flow {
	const struct dp_block *blocks;
	const struct dp_way *ways;
	const struct dp_loop *loops;
	uint32_t blocks_count, ways_count, loops_count;
	uint32_t first_block, first_loop; /* their numbers in the table */
	const int64_t *runs; /* by block, then by way */
	uint64_t *executed; /* by loop: instructions */
	void *pages; /* that these are on */
	uint64_t size;
};

/* Works them out; dp_close_flow is for what it leaves where it returns 0. -ENODATA: its
 * blocks are not counted; -ENOMEM. */
long dp_open_flow(const struct dp_header *view, uint32_t function, struct dp_flow *f) HIDDEN;
void dp_close_flow(const struct dp_flow *f) HIDDEN;

/* How often a loop was entered; -1 where that cannot be told. */
int64_t dp_loop_entries(const struct dp_flow *f, uint32_t loop) HIDDEN;

#endif
