/* Stacks on which threads end, whose own may be gone: slowpath.S takes one for a moment,
 * with all signals blocked. */
#ifndef DYNPROF_LASTSTACK_H
#define DYNPROF_LASTSTACK_H

#define DP_LAST_STACKS 32 /* bits of a word */
#define DP_LAST_STACK_SHIFT 10

#endif
