/* What became of events, in their records, and what is said of it. */
#include "base/filters.h"
#include "base/state.h"
#include "table/entries.h"
#include "table/outcome.h"

static uint32_t *outcome_at(uint64_t slot)
{
	if (slot >= dp.table->events.capacity)
		return 0;
	return &dp_event_at(dp.table, slot)->outcome;
}

void dp_outcome(uint64_t slot, uint32_t was, uint32_t is)
{
	uint32_t *at = outcome_at(slot);
	if (at)
		__atomic_compare_exchange_n(at, &was, is, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

void dp_outcome_of(uint32_t counter, uint32_t is)
{
	uint64_t n = __atomic_load_n(&dp.table->events_head, __ATOMIC_ACQUIRE);
	uint64_t room = dp.table->events.capacity;
	for (uint64_t i = n < room ? n : room; i-- > 0;) {
		const struct dp_event *e = dp_event_at(dp.table, i);
		if (__atomic_load_n(&e->seq, __ATOMIC_ACQUIRE) == i + 1 && e->counter == counter) {
			uint32_t was = __atomic_load_n(outcome_at(i), __ATOMIC_ACQUIRE);
			while ((is != DP_OUTCOME_REFUSED || was < DP_OUTCOME_REDIRECTED) &&
			       !__atomic_compare_exchange_n(outcome_at(i), &was, is, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
				;
			return;
		}
	}
}

void dp_translator_failed(void) { __atomic_fetch_add(&dp.table->translator_failures, 1, __ATOMIC_RELAXED); }

/* The function stays as it is: redirected, if it was. */
void dp_refused(uint32_t counter)
{
	dp_translator_failed();
	dp_outcome_of(counter, DP_OUTCOME_REFUSED);
}

/* One line on stderr, from a small stack. */
void dp_say(const char *what)
{
	static const char who[] = "dynprof: the translator ";
	struct { const void *base; uint64_t len; } line[] = {{who, sizeof who - 1}, {what, text_len(what)}, {"\n", 1}};
	ask(SYS_writev, 2, line, 3);
}
