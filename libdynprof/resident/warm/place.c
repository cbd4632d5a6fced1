/* See place.h. */
#define _GNU_SOURCE
#include <sys/resource.h>

#include "base/mapped.h"
#include "warm/place.h"

#define GB (1ull << 30)
#define ADDRESS_END ((1ull << 47) - DP_PAGE_SIZE)
enum { GUARD = 64 << 10 }; /* as patcher/place has it */

/* The main thread's stack grows down to there. */
static uint64_t stack_low(const struct dp_mapping *m)
{
	struct rlimit limit = {RLIM_INFINITY, 0};
	raw(SYS_prlimit64, 0, RLIMIT_STACK, 0, &limit);
	uint64_t most = limit.rlim_cur < GB ? limit.rlim_cur : GB;
	return m->end - m->start > most ? m->start : m->end - most;
}

static int in_stack(const struct dp_warm *w, uint64_t at, uint64_t size)
{
	for (uint64_t i = 0; i < w->maps.count; i++) {
		const struct dp_mapping *m = &w->maps.list[i];
		if (same_text(m->path, "[stack]") && at + size > stack_low(m) && at < m->end)
			return 1;
	}
	return 0;
}

/* Where the heap starts. */
static uint64_t heap(const struct dp_warm *w)
{
	for (uint64_t i = 0; i < w->maps.count; i++)
		if (same_text(w->maps.list[i].path, "[heap]"))
			return w->maps.list[i].start;
	return (uint64_t)raw(SYS_brk, 0);
}

static uint64_t arena_of(const struct dp_planned *o) { return o->plan->arena + dp_bias(o); }

/* An arena of an object in front of o. */
static int overlaps(const struct dp_warm *w, const struct dp_planned *o, uint64_t at, uint64_t size)
{
	for (const struct dp_planned *p = w->objects; p < o; p++)
		if (at < arena_of(p) + p->plan->arena_size && arena_of(p) < at + size)
			return 1;
	return 0;
}

int dp_take_place(const struct dp_warm *w, struct dp_planned *o)
{
	uint64_t at = arena_of(o), size = o->plan->arena_size;
	if (!size)
		return 1;
	if (at % DP_PAGE_SIZE || at + size < at || overlaps(w, o, at, size) || in_stack(w, at, size))
		return 0;
	if (at > o->loaded->low && at + size + GUARD > heap(w))
		return 0;
	o->held = dp_hold(at, size) ? size : 0;
	return o->held != 0;
}

void dp_leave_place(struct dp_planned *o)
{
	if (o->held)
		raw(SYS_munmap, arena_of(o), o->held);
	o->held = 0;
}

struct gap {
	uint64_t low, high;
};

/* What is left of a gap beside the arenas in it. */
static struct gap beside_arenas(const struct dp_ctl *ctl, struct gap g)
{
	for (uint32_t i = 0; i < ctl->arenas_count; i++) {
		uint64_t at = ctl->arenas[i].at, end = at + ctl->arenas[i].size;
		if (at < g.low || at >= g.high)
			continue;
		if (at - g.low >= g.high - end)
			g.high = at;
		else
			g.low = end;
	}
	return g;
}

/* The gap to take: the nearest large one below the executable, else the largest, of which
 * the upper end is left to what the constructor maps. */
static struct gap best_gap(const struct dp_warm *w)
{
	const uint64_t large = 64 * GB, near = w->objects[0].loaded->low;
	struct gap best = {0, 0}, below = {0, 0};
	uint64_t at = DP_PAGE_SIZE;
	for (uint64_t i = 0; i < w->maps.count; i++) {
		const struct dp_mapping *m = &w->maps.list[i];
		struct gap g = {at, same_text(m->path, "[stack]") ? stack_low(m) : m->start};
		at = m->end;
		if (g.low >= g.high || g.high > ADDRESS_END)
			continue;
		if (g.high <= near && g.high - g.low >= large)
			below = g;
		if (g.high - g.low > best.high - best.low)
			best = g;
	}
	if (below.high)
		return beside_arenas(w->ctl, below);
	best = beside_arenas(w->ctl, best);
	best.high = best.high - best.low > 2 * GB ? best.high - GB : best.high;
	return best;
}

uint64_t dp_take_room(const struct dp_warm *w, uint64_t size)
{
	struct gap g = best_gap(w);
	if (g.high < size + GUARD || g.high - size - GUARD < g.low)
		return 0;
	uint64_t at = (g.high - size - GUARD) & ~(uint64_t)(DP_PAGE_SIZE - 1);
	return dp_hold(at, size) ? at : 0;
}
