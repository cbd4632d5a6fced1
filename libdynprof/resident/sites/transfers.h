/* What the kernel has moved between sockets and memory. */
#ifndef DYNPROF_TRANSFERS_H
#define DYNPROF_TRANSFERS_H

#include "base/raw.h"

/* What is behind system calls that do (slowpath.S); 0 where nobody asks how much. */
uint64_t dp_transfers_entry(void) HIDDEN;

#endif
