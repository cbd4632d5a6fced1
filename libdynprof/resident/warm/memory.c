/* Where memory is short a planner dies before anything is changed, and the program runs on.
 * A start without one would take the program's own. */
#include "base/memory.h"
#include "base/pages.h"
#include "warm/warm.h"

/* Bytes of its text that are copied because they are changed, at most. */
static uint64_t changed(const struct dp_plan_file *p)
{
	const struct dp_plan_text *t = dp_part(p, &p->texts);
	uint64_t n = 0;
	for (uint32_t i = 0; i < p->texts.count; i++, t++) {
		uint64_t most = (uint64_t)DP_PAGE_SIZE * t->listed;
		n += most < t->size ? most : t->size;
	}
	return n;
}

int dp_plans_have_memory(const struct dp_warm *w)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < w->count; i++)
		bytes += w->objects[i].plan_size + changed(w->objects[i].plan);
	return dp_has_memory(bytes);
}
