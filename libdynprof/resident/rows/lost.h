/* Births of threads and processes for which there is no row. */
#ifndef DYNPROF_LOST_H
#define DYNPROF_LOST_H

#include "base/raw.h"
#include "rows/birth.h"

/* Takes a birth; 0 if as many are on their way as there is room for. Its child gives
 * it back (slowpath.S): it stores 0 to resume when it has read the rest. */
struct dp_birth *dp_lost_take(void) HIDDEN;

/* Where its child was not made, or has a copy. */
void dp_lost_free(struct dp_birth *b) HIDDEN;

int dp_is_lost(const struct dp_birth *b) HIDDEN;

/* In a forked child: the others were its parent's. */
void dp_lost_forked(const struct dp_birth *own) HIDDEN;

#endif
