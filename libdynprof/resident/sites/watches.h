/* Which system calls are kernel sites. */
#ifndef DYNPROF_WATCHES_H
#define DYNPROF_WATCHES_H

#include <stdint.h>

#include "base/raw.h"

/* Whether the number is of one that must be known of before it is made. */
int dp_is_watched(uint32_t number) HIDDEN;

#endif
