/* Objects that were loaded later and are not counted. */
#ifndef DYNPROF_MISSED_H
#define DYNPROF_MISSED_H

#include <stdint.h>

#include "base/raw.h"

/* Notes in the table that an object was loaded which is not counted, and why:
 * DP_MISSED_*. */
void dp_miss(const char *path, uint32_t reason) HIDDEN;

#endif
