/* Calls of code that is not ours, in the middle of the program. */
#ifndef DYNPROF_CALLBACK_H
#define DYNPROF_CALLBACK_H

#include <stdint.h>

#include "base/raw.h"

/* Calls fn(arg) on a stack of its own, with signals blocked. Returns 0; -EBUSY if no
 * stack is free or this thread is in a callback; -EFAULT if fn ended with a fault,
 * and where. */
long dp_call_back(void (*fn)(void *), void *arg, uint64_t *fault) HIDDEN;
/* Memory that is the callback's until it ends; 0 in none. */
void *dp_callback_room(uint64_t *size) HIDDEN;
long dp_stacks_map(void) HIDDEN;
/* Whether this thread is in a callback. */
int dp_in_callback(void) HIDDEN;
void dp_stacks_forked(void) HIDDEN;
/* Whether a handler is ours, which the program shall not see. */
int dp_is_fault_handler(uint64_t handler) HIDDEN;

#endif
