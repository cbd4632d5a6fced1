/* Limits of address space beside ours (space.c). */
#ifndef DYNPROF_SPACE_H
#define DYNPROF_SPACE_H

#include <stdint.h>

#include "base/raw.h"
#include "base/regs.h"

/* Counting begins: whether address space is limited now is looked at. */
void dp_space_begin(void) HIDDEN;

/* So many bytes are a shadow's. */
void dp_space_of_shadow(uint64_t bytes) HIDDEN;

/* A getrlimit, setrlimit or prlimit64 at a kernel site. */
void dp_space_limited(struct dp_regs *r) HIDDEN;

/* Before so many bytes are mapped for rows, and when so many of them are not needed after all. */
void dp_space_more(uint64_t bytes) HIDDEN;
void dp_space_less(uint64_t bytes) HIDDEN;

/* Before a program is executed the limits are what this one has asked for. Returns which were others,
 * as bits, which are put back if nothing was executed; for good: nobody will. */
enum dp_space { DP_SPACE_SOFT = 1, DP_SPACE_HARD = 2 };
uint64_t dp_space_as_meant(int for_good) HIDDEN;
void dp_space_as_it_was(uint64_t which) HIDDEN;

#endif
