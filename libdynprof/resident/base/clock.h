/* What time it is. */
#ifndef DYNPROF_CLOCK_H
#define DYNPROF_CLOCK_H

#include <stdint.h>

#include "base/raw.h"
#include "base/regs.h"

/* Of CLOCK_MONOTONIC or CLOCK_REALTIME, ns; 0 where a sandbox tells no time. */
uint64_t dp_now(int clock) HIDDEN;

struct dp_regs;
/* Called with the registers of a prctl that is to come. */
void dp_tsc_comes(const struct dp_regs *r) HIDDEN;

#endif
