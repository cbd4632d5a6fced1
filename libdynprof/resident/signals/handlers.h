/* Entries of our own for the program's handlers. */
#ifndef DYNPROF_HANDLERS_H
#define DYNPROF_HANDLERS_H

#include <stdint.h>

#include "base/raw.h"

/* The slot of a handler, where entries find it; 0 if there is no memory for one.
 * A slot is written once. */
const uint64_t *dp_slot_of(uint64_t handler) HIDDEN;

/* Whether our memory is another process's, too, which waits for us: what we
 * change is not to be remembered there. */
int dp_is_vfork_child(void) HIDDEN;

/* Has an entry lead to a handler, unless all are others'. */
void dp_give_entry(uint64_t handler) HIDDEN;

struct action;
/* rt_sigaction with an entry of ours in place of the handler. */
long dp_install(long sig, const struct action *act, struct action *old) HIDDEN;

/* What is handled or ignored already, as the program's parent or a constructor had it,
 * is as if it were installed now. */
void dp_take_handlers(void) HIDDEN;

#endif
