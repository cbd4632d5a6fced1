/* Where arenas lie (patcher/place). */
#ifndef DYNPROF_PLACE_H
#define DYNPROF_PLACE_H

#include <stdint.h>

#include "warm/warm.h"

/* Whether the arena of an object's plan, if there is one, may lie where that says: nothing
 * else does, nor comes there soon, nor do the arenas of the objects in front of it. */
int dp_has_place(const struct dp_warm *w, const struct dp_planned *o) HIDDEN;

/* Finds a place for what no code refers to, when the other arenas are in the control block;
 * 0: there is none. */
uint64_t dp_find_room(const struct dp_warm *w, uint64_t size) HIDDEN;

#endif
