/* Which pages of memory an access may begin at that is recorded: what the shadow says, and the
 * bounds in front of it. */
#ifndef DYNPROF_TABLE_PAGES_H
#define DYNPROF_TABLE_PAGES_H

#include <stdint.h>

#include "base/layout.h"
#include "base/raw.h"

/* What hotspots run has made for regions, and keeps; 0: there is none. */
extern uint8_t *dp_region_area HIDDEN;

static inline uint64_t *dp_region_word(uint64_t at) { return (uint64_t *)(dp_region_area + at); }
static inline uint64_t dp_region_get(uint64_t at) { return __atomic_load_n(dp_region_word(at), __ATOMIC_ACQUIRE); }

/* Regions may be in [low, high), too, from now on, for ever. */
void dp_pages_widen(uint64_t low, uint64_t high) HIDDEN;
/* One more, or one less (-1), for each page at which an access to [low, high) may begin. */
void dp_pages_mark(uint64_t low, uint64_t high, uint16_t by) HIDDEN;
/* Whether one to at may be recorded. */
int dp_pages_have(uint64_t at) HIDDEN;
/* There is one more for ever, unless there are many: processes that cannot tell of each other
 * what they have share the shadow. */
void dp_pages_keep(uint64_t low, uint64_t high) HIDDEN;

#endif
