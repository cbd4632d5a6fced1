/* Adds objects to the table that the program counts into. */
#ifndef DYNPROF_APPEND_H
#define DYNPROF_APPEND_H

#include "warm/warm.h"

/* Who adds. */
struct dp_adding {
	struct dp_header *view; /* the table, up to its rows, writable; 0: he does not */
	void *theirs;           /* the thread's own list of robust futexes, */
	uint64_t theirs_size;
	uint64_t ours[3];       /* and the one that it has meanwhile */
};

/* Takes the right to add. Returns 0, and takes nothing, if somebody else adds now. */
int dp_begin_adding(struct dp_adding *a) HIDDEN;
void dp_end_adding(struct dp_adding *a) HIDDEN;
/* How many numbers of instructions the table's objects have. */
uint64_t dp_codes_in(const struct dp_header *h) HIDDEN;

/* Adds what w has: functions and counters are those of the whole table then. Returns 0, and
 * adds nothing, if there is no room. */
int dp_add_objects(const struct dp_warm *w, const struct dp_adding *a) HIDDEN;

#endif
