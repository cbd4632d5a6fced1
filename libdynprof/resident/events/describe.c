/* What a callback is told of an event. */
#define _GNU_SOURCE
#include <sys/mman.h>

#define DYNPROF_LIBRARY
#include "../dynprof.h"
#include "base/filters.h"
#include "base/mapped.h"
#include "base/pages.h"
#include "base/state.h"
#include "events/callback.h"
#include "events/describe.h"
#include "events/ring.h"
#include "stubs/redirect.h"
#include "table/entries.h"
#include "table/view.h"
#include "texts/original.h"

/* The number of the function that has a counter; -1 if there is none. Counters
 * are in order of functions, some of which have none. */
static int64_t function_of(const struct dp_header *view, uint32_t counter)
{
	uint32_t low = 0, high = dp_in_use(&view->functions);
	while (low < high) {
		uint32_t middle = low + (high - low) / 2, i = middle, c = DP_NO_COUNTER;
		while (i < high && (c = dp_function_at(view, i)->counter) == DP_NO_COUNTER)
			i++;
		if (i < high && c == counter)
			return i;
		if (i == high || c > counter)
			high = middle;
		else
			low = i + 1;
	}
	return -1;
}

/* The function's bytes as they were, where the callback may find them. */
static void give_code(struct dynprof_event *v, int here, struct dp_copy *copy)
{
	uint64_t room;
	void *to = dp_callback_room(&room);
	if (!v->bytes)
		return;
	if (v->bytes > room) {
		copy->size = pages(v->bytes);
		long at = ask(SYS_mmap, 0, copy->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (failed(at))
			return;
		to = copy->at = (void *)at;
	}
	/* Whose thread is about to run them finds them; the library of others may have
	 * been closed by now. */
	if (here)
		dp_copy_bytes(to, v->entry, v->bytes);
	else if (!dp_read_quietly(to, v->entry, v->bytes))
		return;
	dp_undo_in(to, (uint64_t)v->entry, v->bytes);
	v->code = to;
}

int dp_describe(const struct dp_hot *e, int here, struct dynprof_event *v, struct dp_copy *copy)
{
	const struct dp_header *view = dp_view();
	v->function = view ? function_of(view, e->counter) : -1;
	if (v->function < 0)
		return 0;
	const struct dp_function *f = dp_function_at(view, (uint64_t)v->function);
	const struct dp_object_entry *o = dp_object_of(view, f);
	v->size = sizeof *v;
	v->name = dp_string(view, f->name);
	v->object = dp_string(view, o->path);
	v->build_id = dp_string(view, o->build_id);
	v->entry = (const void *)dp_entry_of_function(view, f);
	v->bytes = f->size;
	v->calls = e->calls;
	v->original = (const void *)dp_body_of(view, f);
	v->pid = e->pid;
	v->tid = e->tid;
	give_code(v, here, copy);
	return 1;
}
