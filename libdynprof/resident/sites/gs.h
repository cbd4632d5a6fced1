/* What happens when the program takes the GS segment (gs.c). */
#ifndef DYNPROF_GS_H
#define DYNPROF_GS_H

#include "base/raw.h"
#include "base/regs.h"

/* Ends the counting by GS, for good. */
void dp_stop(void) HIDDEN;

/* An arch_prctl at a kernel site: whether dp_gs_done shall learn of its result. */
int dp_gs_comes(struct dp_regs *r) HIDDEN;
void dp_gs_done(struct dp_regs *r) HIDDEN;

#endif
