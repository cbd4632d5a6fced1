/* Whether accesses to regions are recorded now, what windows there are by that, and marks. */
#ifndef DYNPROF_TRACING_H
#define DYNPROF_TRACING_H

#include <stdint.h>

#include "base/layout.h"
#include "base/raw.h"
#include "base/state.h"
#include "table/pages.h"

/* The start, once there is memory for it: times are noted only where they can be. */
void dp_trace_begin(void) HIDDEN;
/* What the time-stamp counter is now; 0: it may not be read. */
uint64_t dp_trace_tsc(void) HIDDEN;
/* Notes which time of day that is, if that was long ago. */
void dp_trace_pair(uint64_t tsc) HIDDEN;
/* Why accesses of those kinds by this thread are not recorded, DP_OFF_*; 0: they are, or counting is
 * paused. */
uint64_t dp_trace_why(uint64_t off, uint64_t kinds) HIDDEN;

static inline int dp_trace_paused(void) { return __atomic_load_n(&dp.table->paused, __ATOMIC_ACQUIRE) != 0; }

static inline int dp_trace_is_off(uint64_t off, uint64_t kinds) { return off && (dp_trace_paused() || dp_trace_why(off, kinds)); }

/* The number of the window that is now: how often recording went on. HdrPauses is 4 more each
 * time, and that from when it does. */
static inline uint64_t dp_trace_window(void)
{
	return dp_region_get(DP_RG_TURNS) + (__atomic_load_n(&dp.table->pauses, __ATOMIC_ACQUIRE) + 1) / 4;
}

/* Recording is off from now on, or on, of some kinds; 0: all. */
void dp_trace_switch(int on, uint64_t kinds) HIDDEN;
/* And of this thread alone. 0, -EOPNOTSUPP or -ENOSPC. */
long dp_trace_thread(int on) HIDDEN;
/* The number of a mark's name; DP_RG_NAME_MAX: there is no room. */
uint64_t dp_trace_name(const char *name) HIDDEN;

#endif
