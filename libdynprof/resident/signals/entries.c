/* Which entry is which handler's: written by handlers.c, and asked where a context names a
 * handler that is about to begin (signals.c). */
#include "signals/entries.h"

uint64_t dp_handlers[DP_HANDLERS];
static uint64_t first, more; /* 0: nobody has one yet */

void dp_entries_are(uint64_t of_first, uint64_t of_more)
{
	__atomic_store_n(&first, of_first, __ATOMIC_RELAXED);
	__atomic_store_n(&more, of_more, __ATOMIC_RELAXED);
}

uint64_t dp_entry_of(uint64_t handler)
{
	uint64_t is = 1;
	for (uint64_t i = 0; is && i < DP_HANDLERS; i++) {
		is = __atomic_load_n(&dp_handlers[i], __ATOMIC_RELAXED);
		if (is == handler)
			return first + i * DP_ENTRY_SIZE;
	}
	return 0;
}

uint64_t dp_handler_of(uint64_t entry, const uint64_t *stack)
{
	uint64_t pos = entry - first;
	if (pos < DP_HANDLERS * DP_ENTRY_SIZE && pos % DP_ENTRY_SIZE == 0)
		return dp_handlers[pos / DP_ENTRY_SIZE];
	/* Its restorer is the address of a record, which begins with the handler. */
	return entry && entry == more ? *(const uint64_t *)*stack : 0;
}
