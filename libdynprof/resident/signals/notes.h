/* Threads in what notes the callee of a call by a pointer (stubgen/emit/callees.go). */
#ifndef DYNPROF_NOTES_H
#define DYNPROF_NOTES_H

#include "signals/signals.h"
#include "stubs/arenas.h"

/* The context g of a thread at offset pos of a note, which o is of, is changed to that in
 * front of the call, and s is told how it goes on, but for s->counted. */
void dp_show_note(const struct dp_known *c, const struct dp_origin *o, uint64_t pos, uint64_t *g, struct dp_shown *s) HIDDEN;

#endif
