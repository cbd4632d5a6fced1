/* An audit: who traces the program protects the pages of regions (docs/regions.md), and is told
 * when one was made or removed. */
#ifndef DYNPROF_AUDIT_H
#define DYNPROF_AUDIT_H

#include <stdint.h>

#include "base/raw.h"

/* What lies at at is for regions, and says whether somebody traces; 0: nothing is. */
void dp_audit_begin(uint64_t at) HIDDEN;
/* Whether somebody does. */
int dp_audit_is(void) HIDDEN;
/* Regions are others now, or nothing is in the way any more. */
void dp_audit_tell(void) HIDDEN;
/* Pages have to be open until then: a planner reads them, whom nobody traces. */
void dp_audit_rest(void) HIDDEN;

#endif
