/* Where the parts of a new table lie: internal/table/build/plan.go says the same. */
#ifndef DYNPROF_NEWTABLE_H
#define DYNPROF_NEWTABLE_H

#include "base/layout.h"
#include "base/raw.h"

/* What there is to write. */
struct dp_new_table {
	uint64_t objects, functions, aliases, strings; /* with the empty ones */
	uint64_t blocks, ways, loops, sites;
	uint64_t counters;
	int has_blocks; /* they are counted, */
	int has_sites;  /* or calls are by site */
	int has_threshold;
	int short_space; /* address space is limited */
};

/* Fills in sections, counters and size. Returns 0 for more than a table holds. */
int dp_lay_table(struct dp_header *h, const struct dp_new_table *n) HIDDEN;

#endif
