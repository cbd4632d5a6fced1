/* What tells this process from every other (internal/table/alive). */
#ifndef DYNPROF_IDENTITY_H
#define DYNPROF_IDENTITY_H

#include "base/layout.h"
#include "base/raw.h"

/* Fills in what /proc says, and the time; what it does not say stays zero. */
void dp_identify(struct dp_header *h, uint32_t pid) HIDDEN;

/* Whether nobody traces this process, no filter of system calls is in force in it, and it
 * may no more than its user: else a planner does what may be refused, or end in a kill, and
 * looks at the code itself. */
int dp_takes_plans(void) HIDDEN;

#endif
