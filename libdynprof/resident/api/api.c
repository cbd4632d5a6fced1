/* dynprof.h: what the program may ask of us. It says which may run where. */
#define _GNU_SOURCE
#include <errno.h>

#define DYNPROF_LIBRARY
#include "../dynprof.h"
#include "base/state.h"
#include "rows/loose.h"
#include "rows/rowlist.h"
#include "rows/rows.h"
#include "stubs/pause.h"
#include "table/entries.h"
#include "table/view.h"

/* Nothing is counted, or this process has become none of ours: a table is
 * mapped in all that are; or we have left it. */
static int is_off(void) { return !dp.table || dp_withdrawn; }

int dynprof_version(void) { return DYNPROF_API; }

int dynprof_active(void)
{
	if (is_off() || dp_stopped())
		return 0;
	return __atomic_load_n(dp_u32(dp.table, DP_HDR_PAUSED), __ATOMIC_ACQUIRE) ? 2 : 1;
}

static int set_paused(uint32_t paused)
{
	uint8_t *view = dp_view();
	if (is_off())
		return DYNPROF_OFF;
	return view ? (int)dp_set_paused(view, (uint64_t)dp.reserve, paused) : -ENOMEM;
}

int dynprof_pause(void) { return set_paused(1); }
int dynprof_resume(void) { return set_paused(0); }

int dynprof_reset(void)
{
	uint8_t *view = dp_view();
	if (is_off())
		return DYNPROF_OFF;
	return view ? (int)dp_reset(view) : -ENOMEM;
}

int dynprof_snapshot(const char *path)
{
	uint8_t *view = dp_view();
	if (is_off())
		return DYNPROF_OFF;
	return view ? (int)dp_copy(view, path) : -ENOMEM;
}

/* ---- functions -------------------------------------------------------- */

static int is_object(const uint8_t *view, const uint8_t *object, const char *name)
{
	const char *path = dp_string(view, *dp_u32(object, DP_OBJ_PATH)), *base = path;
	for (const char *p = path; *p; p++)
		if (*p == '/')
			base = p + 1;
	return same_text(path, name) || same_text(base, name);
}

static int has_name(const uint8_t *view, const uint8_t *function, const char *name)
{
	if (same_text(dp_string(view, *dp_u32(function, DP_FN_NAME)), name))
		return 1;
	uint32_t at = *dp_u32(function, DP_FN_ALIASES);
	for (const uint32_t *alias = (const uint32_t *)dp_entry_in(view, DP_HDR_ALIASES, at, 4); at && *alias; alias++)
		if (same_text(dp_string(view, *alias), name))
			return 1;
	return 0;
}

/* Of several functions of one name the first that is counted. */
int64_t dynprof_find(const char *object, const char *name)
{
	const uint8_t *view = dp_view();
	if (is_off())
		return DYNPROF_OFF;
	if (!view || !name || !*name)
		return view ? -ENOENT : -ENOMEM;
	uint32_t n = dp_in_use(view, DP_HDR_FUNCTIONS);
	int64_t found = -ENOENT;
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *f = dp_function_at(view, i);
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
	const uint8_t *view = dp_view();
	if (is_off())
		return DYNPROF_OFF;
	if (!view)
		return -ENOMEM;
	for (uint32_t i = dp_in_use(view, DP_HDR_FUNCTIONS); i-- > 0;) {
		const uint8_t *f = dp_function_at(view, i);
		uint64_t off = (uint64_t)address - dp_entry_of_function(view, f);
		if (off == 0 || off < *dp_u32(f, DP_FN_SIZE))
			return i;
	}
	return -ENOENT;
}

int64_t dynprof_functions(void)
{
	const uint8_t *view = dp_view();
	if (is_off())
		return 0;
	return view ? (int64_t)dp_in_use(view, DP_HDR_FUNCTIONS) : -ENOMEM;
}

/* The baseline first: the counters are not smaller then. */
int64_t dynprof_calls_of(int64_t function)
{
	const uint8_t *view = dp_view();
	if (is_off())
		return DYNPROF_OFF;
	if (!view)
		return -ENOMEM;
	if ((uint64_t)function >= dp_in_use(view, DP_HDR_FUNCTIONS))
		return -ENOENT;
	const uint8_t *f = dp_function_at(view, (uint64_t)function);
	uint32_t counter = *dp_u32(f, DP_FN_COUNTER);
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
	const uint8_t *view = dp_view();
	if (is_off())
		return DYNPROF_OFF;
	if (!view)
		return -ENOMEM;
	if (!info || info->size < sizeof *info)
		return -EINVAL;
	if ((uint64_t)function >= dp_in_use(view, DP_HDR_FUNCTIONS))
		return -ENOENT;
	const uint8_t *f = dp_function_at(view, (uint64_t)function);
	info->counted = (uint32_t)dp_is_counted(f);
	info->object = dp_string(view, *dp_u32(dp_object_of(view, f), DP_OBJ_PATH));
	info->name = dp_string(view, *dp_u32(f, DP_FN_NAME));
	info->address = dp_entry_of_function(view, f);
	info->bytes = *dp_u32(f, DP_FN_SIZE);
	info->calls = dynprof_calls_of(function);
	return 0;
}
