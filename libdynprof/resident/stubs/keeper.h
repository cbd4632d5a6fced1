/* What stands between callers and new code. What it is told to keep, DP_KEEP_*, is in
 * stub.h. */
#ifndef DYNPROF_KEEPER_H
#define DYNPROF_KEEPER_H

#include "base/stub.h"

#ifndef __ASSEMBLER__
#include "base/raw.h"

/* What keep blocks lead to. */
void dp_keeper(void) HIDDEN;
#endif

#endif
