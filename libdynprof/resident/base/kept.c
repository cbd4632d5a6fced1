#include "base/kept.h"
#include "base/pages.h"

struct dp_kept *dp_all_kept HIDDEN;

/* Readers see it whole: it is stored before the list begins with it. */
void dp_note_kept(struct dp_kept *k, const void *at, uint64_t size)
{
	struct dp_kept *first = __atomic_load_n(&dp_all_kept, __ATOMIC_ACQUIRE);
	do
		*k = (struct dp_kept){first, (uint64_t)at, (uint64_t)at + pages(size)};
	while (!__atomic_compare_exchange_n(&dp_all_kept, &first, k, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
}
