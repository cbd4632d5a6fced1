#include "base/kept.h"
#include "base/pages.h"

struct dp_kept dp_kept[DP_MOST_KEPT] HIDDEN;
uint32_t dp_kept_count HIDDEN;

void dp_note_kept(const void *at, uint64_t size)
{
	uint32_t n = __atomic_fetch_add(&dp_kept_count, 1, __ATOMIC_ACQ_REL);
	if (n >= DP_MOST_KEPT)
		return;
	dp_kept[n].low = (uint64_t)at;
	__atomic_store_n(&dp_kept[n].high, (uint64_t)at + pages(size), __ATOMIC_RELEASE);
}
