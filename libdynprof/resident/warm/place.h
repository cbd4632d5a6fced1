/* Where arenas lie (patcher/place). */
#ifndef DYNPROF_PLACE_H
#define DYNPROF_PLACE_H

#include <stdint.h>

#include "warm/warm.h"

/* Takes the place that the plan of an object says for its arena, if there is one. Returns 0
 * if it may not lie there: something else does, or comes there soon, or the arena of an object
 * in front of it. */
int dp_take_place(const struct dp_warm *w, struct dp_planned *o) HIDDEN;
void dp_leave_place(struct dp_planned *o) HIDDEN;

/* Takes a place for what no code refers to, when the other arenas are in the control block;
 * 0: there is none. */
uint64_t dp_take_room(const struct dp_warm *w, uint64_t size) HIDDEN;

#endif
