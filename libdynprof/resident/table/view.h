/* The whole table, for the functions of dynprof.h. */
#ifndef DYNPROF_VIEW_H
#define DYNPROF_VIEW_H

#include <stdint.h>

#include "base/layout.h"
#include "base/raw.h"

/* The table up to its rows, writable, mapped when it is first asked for; 0 if
 * there is no table or no address space. */
struct dp_header *dp_view(void) HIDDEN;

/* What the baseline in force has for a counter; 0 without one. */
uint64_t dp_baseline(const struct dp_header *view, uint32_t counter) HIDDEN;

/* dynprof_reset(). */
long dp_reset(struct dp_header *view) HIDDEN;

#endif
