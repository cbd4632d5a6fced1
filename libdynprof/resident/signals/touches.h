/* Threads in what notes which pages are touched (stubgen/emit/touch.go). */
#ifndef DYNPROF_TOUCHES_H
#define DYNPROF_TOUCHES_H

#include "signals/signals.h"
#include "stubs/arenas.h"

/* The context g of a thread at offset pos of such code, which o is of, is changed to that in
 * front of the instruction, and s is told how it goes on, but for s->counted. */
void dp_show_touch(const struct dp_known *c, const struct dp_origin *o, uint64_t pos, uint64_t *g, struct dp_shown *s) HIDDEN;
/* The same for the rest of it that lies elsewhere: what calls the slow path for a record, or stores. */
void dp_show_cold_touch(const struct dp_known *c, const struct dp_origin *o, uint64_t pos, uint64_t *g, struct dp_shown *s) HIDDEN;
/* The handler may have changed the register that has been saved in a word of the row, or the word. */
void dp_save_again(uint64_t word, uint64_t value) HIDDEN;

#endif
