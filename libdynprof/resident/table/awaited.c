/* See awaited.h. What has to be known of one comes in any order, also behind the call, as objects
 * come: who has stored the last of it finds all, and takes the place, so that one region is made.
 *  1. Who plans stores the place, then `placed`; and counters.
 *  2. Who calls a function has stored its fired word (events/cross.c), which all processes share.
 *  3. Both look whether both are there, and exchange `placed`.
 */
#define _GNU_SOURCE
#include "base/layout.h"
#include "base/state.h"
#include "base/stub.h"
#include "base/text.h"
#include "table/audit.h"
#include "table/awaited.h"
#include "table/entries.h"
#include "table/view.h"

enum { FUNCTIONS = 32 }; /* of one: cmd/hotspots/internal/cli/region.go */

static struct awaited {
	char name[DP_LOG_SIZE - DP_LOG_NAME];
	struct dp_place place;
	uint32_t placed;
	struct code {
		uint64_t low, size;
	} code[FUNCTIONS]; /* whose functions have no counters yet */
	uint32_t codes;
	uint32_t counters[FUNCTIONS], used; /* of more the last: those before are of objects that are gone */
} all[DP_MOST_AWAITED];

static uint32_t counters_of(const struct awaited *a)
{
	uint32_t n = __atomic_load_n(&a->used, __ATOMIC_SEQ_CST);
	return n < FUNCTIONS ? n : FUNCTIONS;
}

static int has_counter(const struct awaited *a, uint32_t counter)
{
	for (uint32_t i = 0, n = counters_of(a); i < n; i++)
		if (__atomic_load_n(&a->counters[i], __ATOMIC_RELAXED) == counter)
			return 1;
	return 0;
}

static int is_called(const struct awaited *a)
{
	for (uint32_t i = 0, n = counters_of(a); i < n; i++)
		if (__atomic_load_n((uint32_t *)dp.threshold_fired + a->counters[i], __ATOMIC_SEQ_CST) == DP_FIRED_DONE)
			return 1;
	return 0;
}

static void begin(struct awaited *a)
{
	uint32_t placed = 1;
	if (!__atomic_load_n(&a->placed, __ATOMIC_SEQ_CST) || !is_called(a))
		return;
	struct dp_place p = a->place;
	if (__atomic_compare_exchange_n(&a->placed, &placed, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) && dp_region_make(&p, a->name))
		dp_audit_tell();
}

static void add_counter(struct awaited *a, uint32_t counter)
{
	if (has_counter(a, counter))
		return;
	__atomic_store_n(&a->counters[a->used % FUNCTIONS], counter, __ATOMIC_RELAXED);
	__atomic_store_n(&a->used, a->used + 1, __ATOMIC_SEQ_CST);
}

int dp_await_call(unsigned i, const char *name, uint64_t low, uint64_t size)
{
	struct awaited *a = &all[i];
	if (a->codes == FUNCTIONS)
		return 0;
	text_copy(a->name, sizeof a->name, name);
	a->code[a->codes++] = (struct code){low, size};
	return 1;
}

/* Whether one of its functions that came last is counted. */
static int count(struct awaited *a)
{
	const struct dp_header *view = dp.threshold_fired ? dp_view() : 0;
	int is = 0;
	for (uint32_t k = 0, n = view ? dp_in_use(&view->functions) : 0; k < n; k++) {
		const struct dp_function *f = dp_function_at(view, k);
		uint64_t entry = dp_entry_of_function(view, f);
		for (const struct code *c = a->code; dp_is_counted(f) && c < a->code + a->codes; c++)
			if (entry - c->low < c->size) {
				add_counter(a, f->counter);
				is = 1;
			}
	}
	a->codes = 0;
	return is;
}

void dp_awaited_count(char *uncounted, size_t room)
{
	for (struct awaited *a = all; a < all + DP_MOST_AWAITED; a++) {
		if (!a->codes)
			continue;
		if (!count(a) && uncounted)
			text_list(uncounted, room, a->name);
		begin(a);
	}
}

void dp_await_place(unsigned i, const char *name, const struct dp_place *p)
{
	struct awaited *a = &all[i];
	text_copy(a->name, sizeof a->name, name);
	__atomic_store_n(&a->placed, 0, __ATOMIC_SEQ_CST);
	a->place = *p;
	__atomic_store_n(&a->placed, 1, __ATOMIC_SEQ_CST);
	begin(a);
}

void dp_awaited_called(uint32_t counter)
{
	for (struct awaited *a = all; a < all + DP_MOST_AWAITED; a++)
		if (has_counter(a, counter))
			begin(a);
}

void dp_awaited_pass(int (*is_loaded)(uint64_t dynamic))
{
	for (struct awaited *a = all; a < all + DP_MOST_AWAITED; a++)
		if (__atomic_load_n(&a->placed, __ATOMIC_SEQ_CST) && a->place.dynamic && !is_loaded(a->place.dynamic))
			__atomic_store_n(&a->placed, 0, __ATOMIC_SEQ_CST);
}
