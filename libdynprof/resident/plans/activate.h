/* A plan comes into force (activate.c). */
#ifndef DYNPROF_ACTIVATE_H
#define DYNPROF_ACTIVATE_H

#include "base/ctl.h"
#include "base/raw.h"

/* The rows that the plan's counters are in: who makes room in them, and who takes
 * that back. */
struct dp_room {
	const char *(*make)(void *arg); /* returns 0, or why there is none */
	void (*take_back)(void *arg);
	void *arg;
	uint32_t functions; /* how many the table has from before */
};

/* Returns 0, or why nothing is counted: then all is as it was. */
const char *dp_activate(const struct dp_ctl *ctl, const struct dp_room *room) HIDDEN;

#endif
