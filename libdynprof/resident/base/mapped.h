/* Memory that may not be there. */
#ifndef DYNPROF_MAPPED_H
#define DYNPROF_MAPPED_H

#include <stdint.h>

#include "base/raw.h"

/* Copies n bytes of this process's memory which may not be there to read: a hole
 * of a full file system. Returns whether it could. */
int dp_read_quietly(void *to, const void *from, uint64_t n) HIDDEN;

/* Whether instructions can be fetched at an address. */
int dp_is_executable(uint64_t at) HIDDEN;

#endif
