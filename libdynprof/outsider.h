/* A planner that is a program of its own, not a copy of the target. */
#ifndef DYNPROF_OUTSIDER_H
#define DYNPROF_OUTSIDER_H

#include <link.h>

#include "late/session.h"

/* Notes which files they are that outsiders use: the dynamic linker and this library,
 * which r_debug lists, and the table. */
void dp_outsider_keep(const struct r_debug *r_debug, const char *table) HIDDEN;

/* Plans as dp_run_twin does, without scratch memory yet; prepare fills in the control
 * block, and leaves other memory of the target as it was. Reports false if nothing has
 * been done: then a twin has to. */
int dp_run_outsider(struct dp_session *s, void (*prepare)(struct dp_session *), const char **why, long *twin, int *reaped) HIDDEN;

/* Descriptors that an outsider begins with, beside the first three. */
enum { DP_OUT_MEMORY = 3, DP_OUT_TABLE, DP_OUT_CTL, DP_OUT_RESERVE };

/* In the only variable of its environment, as 16 hexadecimal digits each. */
struct dp_out_words {
	uint64_t ctl, ctl_size, reserve, reserve_size, view_size;
};
#define DP_OUT_VARIABLE "DYNPROF_OUTSIDER="

#endif
