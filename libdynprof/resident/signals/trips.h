/* Threads in what counts the trips of loops (stubgen/emit/trips.go). */
#ifndef DYNPROF_TRIPS_H
#define DYNPROF_TRIPS_H

#include "signals/signals.h"
#include "stubs/arenas.h"

/* The context g of a thread at offset pos of such code, which o is of, is changed to that in
 * front of what it stands in front of, and s is told how it goes on, but for s->counted. */
void dp_show_trip(const struct dp_known *c, const struct dp_origin *o, uint64_t pos, uint64_t *g, struct dp_shown *s) HIDDEN;
/* This thread does not go on there: its execution is not counted any more. */
void dp_forget_trip(uint64_t word) HIDDEN;

#endif
