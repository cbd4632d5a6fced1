#ifndef DYNPROF_TWIN_H
#define DYNPROF_TWIN_H

#include <elf.h>

#include "base/ctl.h"
#include "base/raw.h"

/* What a planner calls itself: who samples the program from outside, or lists processes,
 * takes it for no process of the program's (cmd/hotspots/internal/sampling). */
#define DP_PLANNER_NAME "dynprof-planner"

/* Makes a twin that no process waits for once it has planned. Does what dp_twin
 * does, in a process of its own. */
_Noreturn void dp_twin_apart(struct dp_ctl *ctl, const Elf64_auxv_t *auxv, long parent) HIDDEN;

/* Runs the planner in this process, a copy of the target, and ends it. */
_Noreturn void dp_twin(struct dp_ctl *ctl, const Elf64_auxv_t *auxv, long parent) HIDDEN;

/* Runs the planner in this process, which may be no copy, and ends it, unless it stays. */
_Noreturn void dp_plan_here(struct dp_ctl *ctl, const Elf64_auxv_t *auxv, int stays) HIDDEN;

/* Where this library lies. */
uint64_t dp_self(void) HIDDEN;

#endif
