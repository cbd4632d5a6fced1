/* Rows in a process's own memory, for threads that have none in the table. */
#ifndef DYNPROF_LOOSE_H
#define DYNPROF_LOOSE_H

#include <stdint.h>

#include "base/layout.h"
#include "base/raw.h"
#include "rows/rowlist.h"

/* Readies a loose row for a thread or process (kind, as of rows) about to be made; 0 if there is no
 * memory, or no row in the table to add it to. */
struct dp_row *dp_loose_take(uint32_t kind) HIDDEN;
/* Whether a GS base is a loose row. */
int dp_is_loose(uint64_t base) HIDDEN;
/* The thread on it was not made, or has a process of its own, with a copy of it. */
void dp_loose_drop(struct dp_row *row) HIDDEN;
/* Its thread ends: adds its counts to the table. */
void dp_loose_end(struct dp_row *row) HIDDEN;
/* This process ends, by the thread on row. */
void dp_loose_end_all(const struct dp_row *row) HIDDEN;
/* This process is new; row is its own, maybe a loose one. The others are its parent's. */
void dp_loose_forked(const struct dp_row *row) HIDDEN;
/* Calls of a counter by all rows of the table, and by this process's loose ones. */
uint64_t dp_calls_now(uint32_t counter, dp_row_finder *at) HIDDEN;

/* Makes sure that the table has a row to add loose ones to. */
void dp_collector_make(void) HIDDEN;

#endif
