#ifndef DYNPROF_ROWLIST_H
#define DYNPROF_ROWLIST_H

#include <stdint.h>

#include "base/layout.h"
#include "base/raw.h"

void dp_push(uint64_t *stack, struct dp_row *row) HIDDEN;
struct dp_row *dp_pop(uint64_t *stack) HIDDEN;
void dp_push_free(struct dp_row *row) HIDDEN;
struct dp_row *dp_pop_free(void) HIDDEN;
void dp_list_row(struct dp_row *row) HIDDEN;
int dp_grow_row(struct dp_row *row) HIDDEN;
int dp_rows_grow(uint32_t counters) HIDDEN;

/* A row that nobody had before, mapped and with room; 0 if there is none. */
struct dp_row *dp_row_fresh(void) HIDDEN;

/* Where a row is in this process; 0: nowhere. dp_row_at, dp_row_map. */
typedef struct dp_row *dp_row_finder(uint32_t index);

/* Goes through the rows that have room: all that at finds, and of a chunk whose rows
 * it does not find none. Begins with {at, 0, 0}; dp_walk returns 0 at the end. */
struct dp_walk {
	dp_row_finder *at;
	uint32_t chunk; /* the next one */
	uint32_t link;  /* the next row's number + 1; 0: none in this chunk */
};
struct dp_row *dp_walk(struct dp_walk *w) HIDDEN;

/* How many counters of a row may be read. One of a process that has not loaded all
 * objects may be without room for the others. */
uint32_t dp_row_counters(const struct dp_row *row) HIDDEN;

/* The calls that the rows have counted from the start on. */
uint64_t dp_rows_total(uint32_t counter, dp_row_finder *at) HIDDEN;

#endif
