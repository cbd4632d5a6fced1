/* What is kept of a handler's call, in the frame that the kernel has made for it. */
#ifndef DYNPROF_KEPT_H
#define DYNPROF_KEPT_H

#include <stdint.h>

#include "base/raw.h"
#include "signals/signals.h"

/* Whoever takes the returns of handlers says by a number that nobody has had before, and where they
 * come; 0: nobody does. */
extern uint64_t dp_kept_mark HIDDEN, dp_kept_site HIDDEN;

/* Whether a restorer is patched, and its thunk leads there. */
int dp_is_taken(uint64_t restorer) HIDDEN;

/* All text is the program's again: what handlers see is where they go on. */
extern int dp_kept_no_more HIDDEN;

/* Takes over what dp_arrive is about to say, if the handler comes back by what is taken. */
int dp_keep_arrival(uint64_t *context, int how, const struct dp_shown *s) HIDDEN;

/* What the frame of a handler that has returned has: what was changed in front of it; that nothing
 * was, nor has the handler; or something else. It is asked once. */
enum dp_kept { DP_KEPT_OTHER, DP_KEPT_SAME, DP_KEPT_SHOWN };
enum dp_kept dp_keeps(uint64_t *context, struct dp_shown *s) HIDDEN;

#endif
