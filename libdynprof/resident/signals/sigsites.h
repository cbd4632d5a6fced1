/* What the program asked for as to SIGTRAP. */
#ifndef DYNPROF_SIGSITES_H
#define DYNPROF_SIGSITES_H

#include <stdint.h>

#include "base/raw.h"
#include "signals/traps.h"

/* The program's action for SIGTRAP; to set it returns what it was. */
struct action dp_wish(void) HIDDEN;
struct action dp_set_wish(const struct action *a) HIDDEN;

/* rt_sigaction where traps are allowed. */
long dp_trap_action(long signal, const struct action *act, struct action *old) HIDDEN;

#endif
