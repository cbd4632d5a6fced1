/* Regions that begin when a function is called (docs/regions.md): its threshold is one call, and
 * the thread that makes it makes the region, in front of the function's own instructions. */
#ifndef DYNPROF_AWAITED_H
#define DYNPROF_AWAITED_H

#include <stddef.h>
#include <stdint.h>

#include "base/raw.h"
#include "table/passing.h"

enum { DP_MOST_AWAITED = 64 };

/* Region number i of those that a user chose, of that name, begins when a function is called whose
 * entry is in [low, low + size). Returns 0 if there is no room for more. */
int dp_await_call(unsigned i, const char *name, uint64_t low, uint64_t size) HIDDEN;
/* And this is where it is. */
void dp_await_place(unsigned i, const char *name, const struct dp_place *p) HIDDEN;
/* Functions have counters now. Appends names of those of which none is counted,
 * unless that is null. */
void dp_awaited_count(char *uncounted, size_t room) HIDDEN;
/* A function has been called. */
void dp_awaited_called(uint32_t counter) HIDDEN;
/* Objects may be gone. */
void dp_awaited_pass(int (*is_loaded)(uint64_t dynamic)) HIDDEN;

#endif
