/* Record locks of the program's. */
#ifndef DYNPROF_RECORDLOCK_H
#define DYNPROF_RECORDLOCK_H

#include <stdint.h>

#include "base/raw.h"

/* Whether this process may hold a record lock on a file of that number: it would lose it as
 * soon as we close the file that we have opened (fcntl(2)). It holds none on a file that it
 * has not open, for the same reason. A planner has descriptors of its own. */
int dp_may_be_locked(uint64_t inode) HIDDEN;

/* A descriptor of this process's that may be of such a file, or -EBADF. */
long dp_opened_as(uint64_t inode) HIDDEN;

#endif
