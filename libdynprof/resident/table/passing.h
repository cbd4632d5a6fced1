/* Regions of objects that came later: they end with them. */
#ifndef DYNPROF_PASSING_H
#define DYNPROF_PASSING_H

#include <stdint.h>

#include "base/raw.h"

/* Where a region is to be. dynamic: of the object that it is of, if that came later, else 0. */
struct dp_place {
	uint64_t low, size, dynamic;
};

/* Makes it; any thread may, and any handler. Returns 0 if it cannot be. */
int dp_region_make(const struct dp_place *p, const char *name) HIDDEN;
/* Removes those of objects that are gone. */
void dp_regions_pass(int (*is_loaded)(uint64_t dynamic)) HIDDEN;

#endif
