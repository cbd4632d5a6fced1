/* Pausing: the first two bytes of stubs change, nothing else. */
#ifndef DYNPROF_PAUSE_H
#define DYNPROF_PAUSE_H

#include <stdint.h>

#include "base/layout.h"
#include "base/raw.h"

/* Lets all stubs of a table count (0) or not (1). table is a writable view of it
 * up to its rows; reserve, if not 0, the reserve that all processes keep, else
 * the arenas are those that this process has noted. Returns how many counted
 * functions were not reached, or -errno. */
long dp_set_paused(struct dp_header *table, uint64_t reserve, uint32_t paused) HIDDEN;

/* What has come to be known since: paused, if all are. */
void dp_pause_new(void) HIDDEN;

/* Stubs change under this lock (0, or -EDEADLK: this thread has it). */
long dp_pause_lock(struct dp_header *table) HIDDEN;
void dp_pause_unlock(struct dp_header *table) HIDDEN;

/* As the twin that stays as the agent: the table is open as fd. */
long dp_agent_set_paused(int fd, uint64_t reserve, uint32_t paused) HIDDEN;

/* Whether blocks of a function, by its number in the table, shall be counted. */
struct dp_turn {
	uint32_t function, on;
};
/* As the agent in a run with a bound (HdrOverhead): turns the switches of these functions, unless
 * counting is paused, when they are off. Returns how many were not reached, or -errno. */
long dp_agent_turn(int fd, uint64_t reserve, const struct dp_turn *turns, uint32_t n) HIDDEN;

#endif
