/* dynprof_trace.h: what is recorded, and when. */
#define _GNU_SOURCE
#include <errno.h>

#define DYNPROF_LIBRARY
#include "../dynprof_trace.h"
#include "api/texts.h"
#include "base/ctl.h"
#include "base/mapped.h"
#include "base/pages.h"
#include "base/state.h"
#include "table/audit.h"
#include "table/heat.h"
#include "table/regions.h"
#include "table/tracing.h"

_Static_assert(DYNPROF_TRACE_LOAD == DP_REGION_LOAD && DYNPROF_TRACE_STORE == DP_REGION_STORE, "kinds");

enum {
	MODES = DYNPROF_TRACE_HEAT | DYNPROF_TRACE_STREAM | DYNPROF_TRACE_REGIONS | DYNPROF_TRACE_CALLS | DYNPROF_TRACE_SYSCALLS,
	KINDS = DYNPROF_TRACE_LOAD | DYNPROF_TRACE_STORE | DYNPROF_TRACE_FETCH | DYNPROF_TRACE_PREFETCH
};

/* What is recorded in this run: one of the two, or 0. */
static uint32_t mode(void)
{
	if (dp_regions_are())
		return DYNPROF_TRACE_REGIONS;
	return dp_heat_how() != DP_HEAT_NONE ? DYNPROF_TRACE_HEAT : 0;
}

long dp_read_name(char *to, size_t room, const char *from)
{
	for (size_t n = 0, some; n + 1 < room; n += some) { /* what is behind its page may not be there */
		some = DP_PAGE_SIZE - (uint64_t)(from + n) % DP_PAGE_SIZE;
		some = some < room - 1 - n ? some : room - 1 - n;
		if (!dp_read_quietly(to + n, from + n, some))
			return -EFAULT;
		for (size_t i = n; i < n + some; i++)
			if (!to[i])
				return 0;
	}
	to[room - 1] = 0;
	return 0;
}

/* What a later version has behind what this one knows has to be 0. */
static long is_empty_from(const char *at, uint64_t size)
{
	uint8_t some[64];
	for (uint64_t n; size; at += n, size -= n) {
		n = size < sizeof some ? size : sizeof some;
		if (!dp_read_quietly(some, at, n))
			return -EFAULT;
		for (uint64_t i = 0; i < n; i++)
			if (some[i])
				return -E2BIG;
	}
	return 0;
}

static long read_options(struct dynprof_trace_options *o, const struct dynprof_trace_options *from)
{
	*o = (struct dynprof_trace_options){0};
	if (!from)
		return 0;
	if (!dp_read_quietly(&o->size, &from->size, sizeof o->size))
		return -EFAULT;
	uint64_t size = o->size;
	if (size < sizeof *o)
		return -EINVAL;
	if (size > DP_PAGE_SIZE)
		return -E2BIG;
	if (!dp_read_quietly(o, from, sizeof *o))
		return -EFAULT;
	return is_empty_from((const char *)from + sizeof *o, size - sizeof *o);
}

/* Whether that can be done in a run that records so. */
static long check_options(const struct dynprof_trace_options *o, uint32_t recorded)
{
	uint32_t kinds = recorded == DYNPROF_TRACE_REGIONS ? DYNPROF_TRACE_LOAD | DYNPROF_TRACE_STORE : 0;
	if (o->modes & ~(uint32_t)MODES || o->kinds & ~(uint32_t)KINDS || o->when_full > DYNPROF_TRACE_STOP)
		return -EINVAL;
	if (o->modes & ~recorded || o->kinds & ~kinds || o->when_full != DYNPROF_TRACE_WAIT || o->slice || o->for_instructions || o->path || o->objects)
		return -ENOTSUP;
	return 0;
}

int dynprof_trace_on(const struct dynprof_trace_options *options)
{
	struct dynprof_trace_options o;
	uint32_t recorded = mode();
	if (!recorded)
		return DYNPROF_OFF;
	long err = read_options(&o, options);
	if (!err)
		err = check_options(&o, recorded);
	if (err)
		return (int)err;
	if (recorded == DYNPROF_TRACE_HEAT)
		return dynprof_resume();
	if (dp_audit_is())
		return o.kinds ? -EOPNOTSUPP : 0; /* it was never off */
	dp_trace_switch(1, o.kinds);
	return 0;
}

int dynprof_trace_off(void)
{
	switch (mode()) {
	case DYNPROF_TRACE_HEAT:
		return dynprof_pause();
	case DYNPROF_TRACE_REGIONS:
		if (dp_audit_is())
			return -EOPNOTSUPP;
		dp_trace_switch(0, 0);
		return 0;
	}
	return DYNPROF_OFF;
}

int dynprof_trace_thread(int on)
{
	if (!mode())
		return DYNPROF_OFF;
	if (on != 0 && on != 1)
		return -EINVAL;
	return mode() != DYNPROF_TRACE_REGIONS || dp_audit_is() ? -EOPNOTSUPP : (int)dp_trace_thread(on);
}

int dynprof_trace_mark(const char *name, uint64_t value)
{
	char text[DP_LOG_SIZE - DP_LOG_NAME];
	if (!dp_regions_are())
		return mode() ? -ENOTSUP : DYNPROF_OFF;
	long err = dp_read_name(text, sizeof text, name);
	return (int)(err ? err : dp_regions_mark(text, value));
}

int dynprof_trace_flush(void)
{
	return dp_regions_are() ? (int)dp_regions_flush() : mode() ? 0 : DYNPROF_OFF;
}

/* Of regions: why they are not recorded. */
static int64_t regions_state(void)
{
	uint64_t stopped = (dp_region_get(DP_RG_ENDED) ? DYNPROF_TRACE_NOT_TAKEN : 0) | (dp_region_get(DP_RG_FAILED) ? DYNPROF_TRACE_NOT_WRITTEN : 0);
	if (stopped)
		return (int64_t)(DYNPROF_TRACE_IS_STOPPED | stopped << 8);
	uint64_t off = dp_trace_why(dp_region_get(DP_RG_OFF), 0), why = dp_trace_paused() ? DYNPROF_TRACE_BY_PAUSE : 0;
	why |= off & DP_OFF_PROGRAM ? DYNPROF_TRACE_BY_PROGRAM : 0;
	why |= off & DP_OFF_THREAD ? DYNPROF_TRACE_BY_THREAD : 0;
	why |= off & DP_OFF_TIME ? DYNPROF_TRACE_BY_TIME : 0;
	if (why)
		return (int64_t)(DYNPROF_TRACE_IS_OFF | why << 8);
	return dp_regions_full() ? DYNPROF_TRACE_IS_WAITING : DYNPROF_TRACE_IS_ON;
}

int64_t dynprof_trace_state(void)
{
	switch (mode()) {
	case DYNPROF_TRACE_REGIONS:
		return regions_state();
	case DYNPROF_TRACE_HEAT:
		return dp_trace_paused() ? DYNPROF_TRACE_IS_OFF | DYNPROF_TRACE_BY_PAUSE << 8 : DYNPROF_TRACE_IS_ON;
	}
	return DYNPROF_OFF;
}

int dynprof_region_info(int64_t region, struct dynprof_region *info)
{
	struct dp_told t;
	uint32_t size;
	if (!dp_regions_are())
		return DYNPROF_OFF;
	if (!dp_read_quietly(&size, &info->size, sizeof size))
		return -EFAULT;
	if (size < sizeof *info)
		return -EINVAL;
	if (!dp_region_told(region, &t))
		return -ENOENT;
	long err = dp_regions_flush();
	if (err)
		return (int)err;
	dp_region_told(region, &t);
	const struct dynprof_region r = {
		.size = size, .flags = (uint32_t)t.kinds, .address = t.low, .length = t.size, .removed = (uint32_t)t.removed,
		.accesses = t.done[DP_DONE_ACCESSES / 8], .loads = t.done[DP_DONE_LOADS / 8], .stores = t.done[DP_DONE_STORES / 8],
		.bytes = t.done[DP_DONE_BYTES / 8], .threads = t.done[DP_DONE_THREADS / 8], .first = t.done[DP_DONE_FIRST / 8], .last = t.done[DP_DONE_LAST / 8],
	};
	return dp_write_quietly(info, &r, sizeof r) ? 0 : -EFAULT;
}
