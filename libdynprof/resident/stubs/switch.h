/* Switches of functions that run as one of two copies, with counters of their blocks or
 * without (stubgen/emit/switch.go). */
#ifndef DYNPROF_SWITCH_H
#define DYNPROF_SWITCH_H

#include <stdint.h>

#include "base/layout.h"
#include "base/raw.h"

/* Whether nothing shall count. */
static inline uint32_t dp_wants_jumps(const struct dp_header *table)
{
	return __atomic_load_n(&table->paused, __ATOMIC_SEQ_CST) | __atomic_load_n(&table->stopped, __ATOMIC_SEQ_CST);
}

/* Turns the switch that is behind a function's count, in memory that is writable up to end.
 * Reports whether there is one. */
int dp_turn(uint8_t *behind, const uint8_t *end, uint32_t on) HIDDEN;
/* Whether arrivals run the copy without counters. */
int dp_is_plain(const uint8_t *behind, const uint8_t *end) HIDDEN;
/* A function has reached its threshold, and came by this address in its cold block: its
 * blocks are counted from now on, if the run is one that wants it, in the whole fork tree. */
void dp_turn_hot(uint64_t cold) HIDDEN;

#endif
