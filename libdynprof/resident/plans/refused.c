/* See refused.h. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "base/pages.h"
#include "base/state.h"
#include "plans/refused.h"
#include "texts/undos.h"

int dp_is_refused(const struct dp_refused *r, uint32_t group)
{
	if (group == DP_SIGNAL_SITES)
		return r->all || r->signals;
	return r->all || (r->bits && group != DP_NO_GROUP && group / 8 < r->size && r->bits[group / 8] >> group % 8 & 1);
}

int dp_make_refused(struct dp_refused *r)
{
	r->size = pages(dp.table->functions.count / 8 + 1);
	long at = raw(SYS_mmap, 0, r->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	r->bits = failed(at) ? 0 : (uint8_t *)at;
	return r->bits != 0;
}

void dp_refuse(struct dp_refused *r, uint32_t group)
{
	if (group == DP_NO_GROUP || dp_is_refused(r, group))
		return;
	if (group == DP_SIGNAL_SITES) {
		r->signals = 1;
		return;
	}
	if (!r->bits)
		r->all = !dp_make_refused(r);
	if (r->bits && group / 8 < r->size)
		r->bits[group / 8] |= (uint8_t)(1 << group % 8);
	r->groups++;
}
