/* A plan comes into force, at the start and for objects that come later: nothing
 * of what it counts runs meanwhile.
 *
 *  1. The arenas are mapped where their stubs will run.
 *  2. The rows get room for the counters, and the arenas their views of them.
 *  3. The arenas become known, to handlers and to other threads.
 *  4. SIGTRAP is handled, if there are traps.
 *  5. Thresholds are set, and what is paused stays so; then the patches are made.
 * What fails takes back, in the reverse order, what was done before it. */
#define _GNU_SOURCE
#include "base/lock.h"
#include "base/state.h"
#include "plans/activate.h"
#include "plans/apply.h"
#include "signals/traps.h"
#include "stubs/arenas.h"
#include "stubs/pause.h"
#include "stubs/redirect.h"
#include "table/view.h"
#include "texts/marks.h"
#include "texts/undos.h"

static int is_start(const struct dp_ctl *ctl) { return !ctl->late; }

static const char *make_patches(const struct dp_ctl *ctl, const struct dp_room *room)
{
	if (!dp_make_undos(ctl) || !dp_make_marks())
		return "no memory to give its text back";
	dp_arm_new(room->functions);
	dp_pause_new();
	uint32_t functions = dp.counters - dp.table->blocks_count;
	if (dp_apply_patches(ctl) == functions && functions && is_start(ctl))
		return "its text cannot be made writable";
	dp_note_undos(ctl);
	dp_own_session(ctl);
	return 0;
}

/* Of what comes later none needs traps but where they are handled. */
static const char *handle_traps(const struct dp_ctl *ctl, const struct dp_room *room)
{
	if (!ctl->traps || !is_start(ctl))
		return make_patches(ctl, room);
	const char *why = dp_traps_begin() ? make_patches(ctl, room) : "SIGTRAP cannot be handled";
	if (why)
		dp_traps_end();
	return why;
}

static const char *know(const struct dp_ctl *ctl, const struct dp_room *room)
{
	const char *why = dp_know_arenas(ctl);
	if (why)
		return why;
	why = handle_traps(ctl, room);
	if (why)
		dp_forget_arenas();
	return why;
}

static const char *make_room(const struct dp_ctl *ctl, const struct dp_room *room)
{
	const char *why = room->make(room->arg);
	if (why)
		return why;
	why = dp_map_views(ctl);
	if (!why)
		why = know(ctl, room);
	if (why)
		room->take_back(room->arg);
	return why;
}

static const char *map_and_make(const struct dp_ctl *ctl, const struct dp_room *room)
{
	const char *why = dp_map_arenas(ctl);
	if (why)
		return why;
	why = make_room(ctl, room);
	if (why)
		dp_unmap_arenas(ctl);
	return why;
}

const char *dp_activate(const struct dp_ctl *ctl, const struct dp_room *room)
{
	const char *why = map_and_make(ctl, room);
	dp_drop_copies(ctl);
	if (!why && dp.table->flags & DP_FLAG_TRIPS)
		dp_view(); /* forks look at it (table/executions.c), and a filter may forbid to map it later */
	return why;
}
