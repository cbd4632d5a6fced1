/* See warm.h.
 *
 *  1. The variables and the process are such that a start needs no planner.
 *  2. Each object's plan is found, checked, and compared with the object.
 *  3. There is memory for them.
 *  4. Arenas, origins and changes are put into the reserve, and told in the control block.
 *  5. The table is made.
 * Until then nothing is changed that anybody could see, but for pages of ours: a step that
 * fails leaves all to a planner. What follows is as behind a planner (plans/activate.c):
 * every byte is compared before it is patched. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "warm/append.h"
#include "warm/identity.h"
#include "warm/place.h"
#include "warm/warm.h"

static int may_try(const struct dp_warm *w)
{
	const struct dp_ctl *ctl = w->ctl;
	return ctl->cache && !ctl->keep && !ctl->listen && !ctl->translator && !ctl->shared && dp_takes_plans();
}

/* One of them stands in for the dynamic linker's function: else objects that come later
 * would not be seen. */
static int sees_later(const struct dp_warm *w)
{
	for (uint32_t i = 0; i < w->count; i++)
		if (w->objects[i].plan->hook)
			return 1;
	return 0;
}

/* The pages are zeros again: the planner takes them for that. */
static void take_back(struct dp_warm *w)
{
	struct dp_ctl *ctl = w->ctl;
	for (uint32_t i = 0; i < w->count; i++) {
		dp_drop_copy(&w->objects[i]);
		dp_leave_place(&w->objects[i]);
	}
	for (uint32_t i = 0; i < ctl->arenas_count; i++)
		if (!ctl->arenas[i].cold) /* of no object */
			raw(SYS_munmap, ctl->arenas[i].at, ctl->arenas[i].size);
	ctl->arenas_count = 0;
	ctl->texts_count = 0;
	ctl->undos = 0;
	ctl->undos_count = 0;
	if (w->used)
		raw(SYS_madvise, w->reserve, w->used, MADV_REMOVE);
}

static int finish(struct dp_warm *w, int ok)
{
	if (!ok)
		take_back(w);
	w->ctl->status = (uint32_t)ok;
	if (w->reserve)
		raw(SYS_munmap, w->reserve, w->ctl->reserve_size);
	dp_drop_plans(w, ok);
	return ok;
}

int dp_warm_start(struct dp_ctl *ctl)
{
	struct dp_warm w = {.ctl = ctl, .plans = {-1, -1}, .pagemap = -1};
	ctl->pid = (uint32_t)raw(SYS_getpid);
	dp_know_planner(ctl);
	return finish(&w, may_try(&w) && dp_read_choice(ctl, &w.choice) && dp_find_plans(&w) && sees_later(&w) && dp_plans_have_memory(&w) && dp_lay_plans(&w) && dp_make_table(&w));
}

/* Counters and functions get numbers behind those of the table. */
static int lay_and_add(struct dp_warm *w, const struct dp_adding *a)
{
	w->counters = a->view->counters;
	w->codes = dp_codes_in(a->view);
	w->functions = a->view->functions.count;
	return dp_lay_plans(w) && dp_add_objects(w, a);
}

int dp_warm_late(struct dp_ctl *ctl)
{
	struct dp_warm w = {.ctl = ctl, .plans = {-1, -1}, .pagemap = -1};
	struct dp_adding a = {0};
	int ok = dp_takes_plans() && dp_read_choice(ctl, &w.choice) && dp_find_plans(&w) && dp_plans_have_memory(&w) && dp_begin_adding(&a) && lay_and_add(&w, &a);
	dp_end_adding(&a);
	return finish(&w, ok);
}
