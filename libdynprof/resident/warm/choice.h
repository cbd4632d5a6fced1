/* What a user has chosen, as far as a start without a planner can do it. */
#ifndef DYNPROF_CHOICE_H
#define DYNPROF_CHOICE_H

#include <stdint.h>

#include "base/ctl.h"
#include "base/raw.h"

struct dp_choice {
	const char *output;      /* pattern; 0: the default place */
	const char *runtime_dir; /* the values of XDG_RUNTIME_DIR, XDG_CACHE_HOME, HOME, or 0 */
	const char *plans;       /* directory of plans, if the user named one */
	const char *cache_home;
	const char *home;
	uint8_t run_id[16];
	uint32_t threshold;      /* 0: none */
	int all;                 /* all objects are counted */
	int keep_calls, blocks, hot, edges, trips, follow_exec, text_copies;
};

/* Whether a switch is on, as internal/setting has it. */
static inline int dp_is_on(const char *value) { return *value && (value[0] != '0' || value[1]); }

/* Whether direct calls are counted by site; with blocks callers are known by these. */
static inline int dp_counts_calls(const struct dp_choice *c) { return c->edges && !c->blocks; }

/* Reads the variables as libdynprof/config.go does. Returns 0 if a planner has to. */
int dp_read_choice(const struct dp_ctl *ctl, struct dp_choice *c) HIDDEN;

#endif
