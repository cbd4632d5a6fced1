/* Registers with what a jump table of a copy's own has (aimed.c). */
#ifndef DYNPROF_AIMED_H
#define DYNPROF_AIMED_H

#include <stdint.h>

#include "signals/signals.h"
#include "stubs/arenas.h"

/* The bits of an original length that say how long it is. */
#define DP_ORIGINAL (~(DP_IS_CALL | DP_IS_AIMED))

/* The context g is at a place in the record o, behind whose count, or in it, the next instruction
 * stands at an address. If a register has what such a table has, it gets what the program's own
 * has; unless it is rax, s knows how it is put back. */
void dp_show_aimed(const struct dp_known *c, const struct dp_origin *o, uint64_t at, uint64_t *g, struct dp_shown *s) HIDDEN;

#endif
