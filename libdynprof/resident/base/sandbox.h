/* Sandboxes by seccomp, whoever made them. */
#ifndef DYNPROF_SANDBOX_H
#define DYNPROF_SANDBOX_H

#include "base/raw.h"

/* Whether a filter is in force, one from before the program's start too. Asked by system
 * calls that dlopen makes. */
int dp_sandboxed(void) HIDDEN;

#endif
