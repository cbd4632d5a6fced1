/* See passing.h. */
#define _GNU_SOURCE
#include "base/filters.h"
#include "base/layout.h"
#include "base/stub.h"
#include "table/audit.h"
#include "table/passing.h"
#include "table/regions.h"

enum { NONE, CLAIMED }; /* in place of the run address of a dynamic section */

/* As this process has loaded them. */
static struct passing {
	uint64_t dynamic;
	int64_t number;
	long pid;
} passing[DP_RG_LIVES];

int dp_region_make(const struct dp_place *p, const char *name)
{
	int64_t number = dp_region_add(p->low, p->size, name, 0);
	for (struct passing *q = passing; number > 0 && p->dynamic && q < passing + DP_RG_LIVES; q++) {
		uint64_t none = NONE;
		if (__atomic_compare_exchange_n(&q->dynamic, &none, CLAIMED, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			q->number = number;
			q->pid = ask(SYS_getpid);
			__atomic_store_n(&q->dynamic, p->dynamic, __ATOMIC_RELEASE);
			break;
		}
	}
	return number > 0;
}

void dp_regions_pass(int (*is_loaded)(uint64_t dynamic))
{
	int removed = 0;
	if (!dp_regions_are())
		return;
	for (struct passing *q = passing; q < passing + DP_RG_LIVES; q++) {
		uint64_t dynamic = __atomic_load_n(&q->dynamic, __ATOMIC_ACQUIRE);
		if (dynamic == NONE || dynamic == CLAIMED || is_loaded(dynamic))
			continue;
		if (q->pid == ask(SYS_getpid)) /* else a fork's child has let go of its own */
			removed |= dp_region_remove(q->number) == 0;
		__atomic_store_n(&q->dynamic, NONE, __ATOMIC_RELEASE);
	}
	if (removed)
		dp_audit_tell();
}
