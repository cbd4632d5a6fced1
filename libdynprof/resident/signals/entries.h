/* Which of the entries of signals.S leads to which handler of the program's. */
#ifndef DYNPROF_ENTRIES_H
#define DYNPROF_ENTRIES_H

#include <stdint.h>

#include "base/context.h"
#include "base/raw.h"
#include "signals/signals.h"

/* The handlers that the entries go on to. */
extern uint64_t dp_handlers[DP_HANDLERS] HIDDEN;

/* Where the entries are: that of the first, and the one that all others share. */
void dp_entries_are(uint64_t first, uint64_t more) HIDDEN;

/* The entry of a handler's own; 0 if it has none. */
uint64_t dp_entry_of(uint64_t handler) HIDDEN;
/* The handler that an entry leads to, entered with such a stack; 0 if there is no entry. */
uint64_t dp_handler_of(uint64_t entry, const uint64_t *stack) HIDDEN;

/* Whether the kernel has just entered a handler, of which nothing has run: its arguments are where
 * it has put them (struct rt_sigframe), whatever sa_flags say. */
static inline int dp_is_entered(const uint64_t *g)
{
	enum { FRAME = 8, CONTEXT = 304 };
	return g[DP_REG_RDX] == g[DP_REG_RSP] + FRAME && g[DP_REG_RSI] == g[DP_REG_RDX] + CONTEXT && g[DP_REG_RAX] == 0;
}

#endif
