/* What the kernel has of the program's handlers. */
#ifndef DYNPROF_ACTION_H
#define DYNPROF_ACTION_H

#include <stdint.h>

#include "base/raw.h"

/* The kernel gets the program's handlers in place of ours, for good. */
void dp_handlers_given(void) HIDDEN;

#endif
