/* What a callback is given. */
#ifndef DYNPROF_DESCRIBE_H
#define DYNPROF_DESCRIBE_H

#include <stdint.h>

#include "base/raw.h"
#include "events/ring.h"

/* Fills in an event for a callback, on its stack; synchronous is set. here: this
 * thread is at the function's beginning. Returns 0 if the function is not known. The
 * copy, if it is not 0, is to be unmapped behind the callback. */
struct dp_copy { void *at; uint64_t size; };
struct dynprof_event;
int dp_describe(const struct dp_hot *e, int here, struct dynprof_event *v, struct dp_copy *copy) HIDDEN;

#endif
