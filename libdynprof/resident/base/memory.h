/* What limits of control groups leave. A program beyond its limit is killed. */
#ifndef DYNPROF_MEMORY_H
#define DYNPROF_MEMORY_H

#include <stdint.h>

#include "base/raw.h"

/* Whether this process can take so many bytes more and be left with some for itself. */
int dp_has_memory(uint64_t bytes) HIDDEN;

/* Whether another process in the same groups that takes so many bytes could be the end of this
 * one, too: in groups that the kernel ends as a whole. */
int dp_ends_with_it(uint64_t bytes) HIDDEN;

/* Bytes of this process that are in memory; 0 if they are not known. */
uint64_t dp_resident(void) HIDDEN;

#endif
