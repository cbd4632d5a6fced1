/* Where arenas lie (patcher/place). */
#ifndef DYNPROF_PLACE_H
#define DYNPROF_PLACE_H

#include <stdint.h>

#include "warm/warm.h"

/* Whether an object's arena may lie there: nothing else does, nor comes there soon. */
int dp_may_lie(const struct dp_warm *w, const struct dp_object *o, uint64_t at, uint64_t size) HIDDEN;

/* Finds a place for what no code refers to; 0: there is none. */
uint64_t dp_find_room(const struct dp_warm *w, uint64_t size) HIDDEN;

#endif
