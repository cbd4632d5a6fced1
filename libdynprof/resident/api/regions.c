/* dynprof.h and memtr.h: memory whose accesses are recorded. */
#include <errno.h>

#define DYNPROF_LIBRARY
#include "../dynprof.h"
#include "base/state.h"
#include "table/regions.h"

int64_t dynprof_region_add(const void *address, size_t bytes, const char *name, unsigned flags)
{
	if (!dp_regions_are())
		return DYNPROF_OFF;
	return flags ? -EINVAL : dp_region_add((uint64_t)address, bytes, name);
}

int dynprof_region_remove(int64_t region) { return dp_regions_are() ? (int)dp_region_remove(region) : DYNPROF_OFF; }

int64_t dynprof_region_find(const void *address) { return dp_regions_are() ? dp_region_at((uint64_t)address) : DYNPROF_OFF; }

int dynprof_region_flush(void) { return dp_regions_are() ? (int)dp_regions_flush() : DYNPROF_OFF; }
