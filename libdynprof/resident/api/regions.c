/* dynprof.h and memtr.h: memory whose accesses are recorded. */
#include <errno.h>

#define DYNPROF_LIBRARY
#include "../dynprof.h"
#include "api/texts.h"
#include "base/state.h"
#include "table/audit.h"
#include "table/regions.h"

_Static_assert(DYNPROF_REGION_LOAD == DP_REGION_LOAD && DYNPROF_REGION_STORE == DP_REGION_STORE, "kinds");

int64_t dynprof_region_add(const void *address, size_t bytes, const char *name, unsigned flags)
{
	if (!dp_regions_are())
		return DYNPROF_OFF;
	if (flags & ~(unsigned)(DYNPROF_REGION_LOAD | DYNPROF_REGION_STORE))
		return -EINVAL;
	char text[DP_LOG_SIZE - DP_LOG_NAME] = "";
	if (name && dp_read_name(text, sizeof text, name))
		return -EFAULT;
	int64_t number = dp_region_add((uint64_t)address, bytes, text, flags);
	if (number > 0)
		dp_audit_tell();
	return number;
}

int dynprof_region_remove(int64_t region)
{
	if (!dp_regions_are())
		return DYNPROF_OFF;
	int done = (int)dp_region_remove(region);
	if (done == 0)
		dp_audit_tell();
	return done;
}

int64_t dynprof_region_find(const void *address) { return dp_regions_are() ? dp_region_at((uint64_t)address) : DYNPROF_OFF; }

int dynprof_region_flush(void) { return dp_regions_are() ? (int)dp_regions_flush() : DYNPROF_OFF; }
