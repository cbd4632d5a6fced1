/* hotspots run, which counts what a program executes that loads no library of ours. */
#ifndef DYNPROF_OUTSIDE_H
#define DYNPROF_OUTSIDE_H

#include "base/raw.h"

/* This thread is about to execute such a program. path: of a socket, in the program's memory;
 * stack: its stack pointer. */
void dp_outside_follows(uint64_t path, uint64_t stack) HIDDEN;

#endif
