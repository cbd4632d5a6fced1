/* A planner that is a program of its own, not a copy of the target. */
#ifndef DYNPROF_OUTSIDER_H
#define DYNPROF_OUTSIDER_H

#include <link.h>

#include "session.h"

/* Notes which files they are that outsiders use: the dynamic linker and this library,
 * which r_debug lists, and the table. */
void dp_outsider_keep(const struct r_debug *r_debug, const char *table) HIDDEN;

/* Plans objects that come later, by an outsider if that goes, else by a twin, without
 * scratch memory yet: 0, or why there is nothing to apply. Prepare fills in the control
 * block, and leaves other memory of the target as it was. */
const char *dp_plan_late(struct dp_session *s, void (*prepare)(struct dp_session *), long *twin, int *reaped) HIDDEN;

/* Descriptors that an outsider begins with, beside the first three. */
enum { DP_OUT_MEMORY = 3, DP_OUT_TABLE, DP_OUT_CTL, DP_OUT_RESERVE };

/* In the only variable of its environment, as 16 hexadecimal digits each. */
struct dp_out_words {
	uint64_t ctl, ctl_size, reserve, reserve_size, view_size;
};
#define DP_OUT_VARIABLE "DYNPROF_OUTSIDER="

#endif
