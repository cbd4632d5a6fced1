/* dynprof.h: what the program may ask of us. It says which may run where. */
#define _GNU_SOURCE
#include <errno.h>

#define DYNPROF_LIBRARY
#include "../dynprof.h"
#include "api/copy.h"
#include "base/state.h"
#include "rows/chunks.h"
#include "rows/loose.h"
#include "rows/rowlist.h"
#include "rows/rows.h"
#include "stubs/pause.h"
#include "table/entries.h"
#include "table/view.h"

int dynprof_version(void) { return DYNPROF_API; }

int dynprof_active(void)
{
	if (dp_is_off() || dp_stopped())
		return 0;
	return __atomic_load_n(&dp.table->paused, __ATOMIC_ACQUIRE) ? 2 : 1;
}

/* Blocks are counted: counts that follow from others' have no baseline. */
static int counts_blocks(void) { return dp.table->blocks.offset != 0; }

/* Copies of functions can be left for others without counters. */
static int can_pause(void) { return dp.table->flags & DP_FLAG_SWITCHED; }

static int set_paused(uint32_t paused)
{
	struct dp_header *view = dp_view();
	if (dp_is_off())
		return DYNPROF_OFF;
	if (counts_blocks() && !can_pause())
		return -EOPNOTSUPP;
	return view ? (int)dp_set_paused(view, (uint64_t)dp.reserve, paused) : -ENOMEM;
}

int dynprof_pause(void) { return set_paused(1); }
int dynprof_resume(void) { return set_paused(0); }

int dynprof_reset(void)
{
	struct dp_header *view = dp_view();
	if (dp_is_off())
		return DYNPROF_OFF;
	if (counts_blocks() || dp.table->sites.offset) /* nor have those of call sites */
		return -EOPNOTSUPP;
	return view ? (int)dp_reset(view) : -ENOMEM;
}

int dynprof_snapshot(const char *path)
{
	struct dp_header *view = dp_view();
	if (dp_is_off())
		return DYNPROF_OFF;
	return view ? (int)dp_copy(view, path) : -ENOMEM;
}

/* ---- functions -------------------------------------------------------- */

static int is_object(const struct dp_header *view, const struct dp_object_entry *object, const char *name)
{
	const char *path = dp_string(view, object->path), *base = path;
	for (const char *p = path; *p; p++)
		if (*p == '/')
			base = p + 1;
	return same_text(path, name) || same_text(base, name);
}

static int has_name(const struct dp_header *view, const struct dp_function *function, const char *name)
{
	if (same_text(dp_string(view, function->name), name))
		return 1;
	uint32_t at = function->aliases;
	for (const uint32_t *alias = (const uint32_t *)dp_in_table(view, view->aliases.offset) + at; at && *alias; alias++)
		if (same_text(dp_string(view, *alias), name))
			return 1;
	return 0;
}

/* Of several functions of one name the first that is counted. */
int64_t dynprof_find(const char *object, const char *name)
{
	const struct dp_header *view = dp_view();
	if (dp_is_off())
		return DYNPROF_OFF;
	if (!view || !name || !*name)
		return view ? -ENOENT : -ENOMEM;
	uint32_t n = dp_in_use(&view->functions);
	int64_t found = -ENOENT;
	for (uint32_t i = 0; i < n; i++) {
		const struct dp_function *f = dp_function_at(view, i);
		if ((found >= 0 && !dp_is_counted(f)) || !has_name(view, f, name) ||
		    (object && !is_object(view, dp_object_of(view, f), object)))
			continue;
		found = i;
		if (dp_is_counted(f))
			break;
	}
	return found;
}

/* Of several objects that have been at that place the last. */
int64_t dynprof_find_address(const void *address)
{
	const struct dp_header *view = dp_view();
	if (dp_is_off())
		return DYNPROF_OFF;
	if (!view)
		return -ENOMEM;
	for (uint32_t i = dp_in_use(&view->functions); i-- > 0;) {
		const struct dp_function *f = dp_function_at(view, i);
		uint64_t off = (uint64_t)address - dp_entry_of_function(view, f);
		if (off == 0 || off < f->size)
			return i;
	}
	return -ENOENT;
}

int64_t dynprof_functions(void)
{
	const struct dp_header *view = dp_view();
	if (dp_is_off())
		return 0;
	return view ? (int64_t)dp_in_use(&view->functions) : -ENOMEM;
}

/* The baseline first: the counters are not smaller then. */
int64_t dynprof_calls_of(int64_t function)
{
	const struct dp_header *view = dp_view();
	if (dp_is_off())
		return DYNPROF_OFF;
	if (!view)
		return -ENOMEM;
	if ((uint64_t)function >= dp_in_use(&view->functions))
		return -ENOENT;
	const struct dp_function *f = dp_function_at(view, (uint64_t)function);
	uint32_t counter = f->counter;
	if (!dp_is_counted(f))
		return -ENODATA;
	uint64_t before = dp_baseline(view, counter), now = dp_calls_now(counter, dp_row_map);
	return now > before ? (int64_t)(now - before) : 0;
}

int64_t dynprof_calls(const char *object, const char *name)
{
	int64_t function = dynprof_find(object, name);
	return function < 0 ? function : dynprof_calls_of(function);
}

int dynprof_function_info(int64_t function, struct dynprof_function *info)
{
	const struct dp_header *view = dp_view();
	if (dp_is_off())
		return DYNPROF_OFF;
	if (!view)
		return -ENOMEM;
	if (!info || info->size < sizeof *info)
		return -EINVAL;
	if ((uint64_t)function >= dp_in_use(&view->functions))
		return -ENOENT;
	const struct dp_function *f = dp_function_at(view, (uint64_t)function);
	info->counted = (uint32_t)dp_is_counted(f);
	info->object = dp_string(view, dp_object_of(view, f)->path);
	info->name = dp_string(view, f->name);
	info->address = dp_entry_of_function(view, f);
	info->bytes = f->size;
	info->calls = dynprof_calls_of(function);
	return 0;
}
