/* Where the heap is that brk(2) makes larger. */
#ifndef DYNPROF_BRK_H
#define DYNPROF_BRK_H

#include <stdint.h>

#include "base/raw.h"

/* Where it begins; 0: nobody tells. */
uint64_t dp_brk_begin(void) HIDDEN;
/* How much of it is a region: up to memory of ours, and 4 GB at most. */
uint64_t dp_brk_most(uint64_t begin) HIDDEN;

#endif
