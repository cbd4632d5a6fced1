/* Waiting for threads to go on. */
#ifndef DYNPROF_LETRUN_H
#define DYNPROF_LETRUN_H

#include "base/raw.h"

/* Returns when every other thread of the process has run since, or sleeps in a system
 * call; at the latest after a second, and where /proc is not to be had, after a
 * millisecond. */
void dp_let_all_run(void) HIDDEN;

#endif
