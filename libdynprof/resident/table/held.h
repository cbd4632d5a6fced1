/* Blocks of malloc, with hotspots run --allocs: who has asked for each, how large it is, and behind which look
 * of hotspots run it came (docs/heat.md). allocs.c tells of them. */
#ifndef DYNPROF_HELD_H
#define DYNPROF_HELD_H

#include <stdint.h>

#include "base/raw.h"

/* One that was taken away. */
struct dp_held {
	uint64_t what, size;
};

/* They are noted from now on, in memory that begins there, if this process can be told from its children. */
void dp_held_begin(uint64_t at) HIDDEN;
void dp_held_end(void) HIDDEN;
/* Whether they are, and there is such memory. */
int dp_held_are(void) HIDDEN;
/* Whether they are, in this process: children that were forked have copies, of which nothing is noted. */
int dp_held_here(void) HIDDEN;
/* Takes the block that begins at low away, before anybody else can get it. Returns 0 if there is none. */
int dp_held_take(uint64_t low, struct dp_held *was) HIDDEN;
/* It was given back. */
void dp_held_gone(const struct dp_held *was) HIDDEN;
/* It was not after all. */
void dp_held_keep(const struct dp_held *was) HIDDEN;
/* There is one, that a call which returns there has asked for. */
void dp_held_add(uint64_t low, uint64_t size, uint64_t back) HIDDEN;
/* A child asks for one. */
void dp_held_elsewhere(void) HIDDEN;
/* Blocks of a library that came later may be missing. */
void dp_held_unled(void) HIDDEN;

#endif
