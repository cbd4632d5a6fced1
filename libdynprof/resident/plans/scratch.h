/* How large the memory is that a session shares with its planner, and where what is in it. */
#ifndef DYNPROF_SCRATCH_H
#define DYNPROF_SCRATCH_H

#include "base/pages.h"
#include "plans/late.h"

/* Stubs, and what is told of them, take less than the text they count, but for
 * programs of tiny functions; nothing is used until it is written. Where address space
 * is limited half has to do. */
static inline uint64_t stubs_take(const struct dp_session *s, int space_is_short)
{
	return pages((space_is_short ? 2 : 4) * s->text_size + (4 << 20));
}

/* An arena serves an object or more, one has no code. */
enum { MORE_ARENAS = 2 };

/* A run of text has a page of its own. */
static inline uint64_t texts_at_most(const struct dp_session *s) { return s->text_size / DP_PAGE_SIZE; }

/* The block and the lists behind it. */
static inline uint64_t ctl_size(const struct dp_session *s)
{
	uint64_t n = s->objects;
	return sizeof(struct dp_ctl) + s->vars * sizeof(uint64_t) + n * sizeof(struct dp_object) +
	       (n + MORE_ARENAS) * sizeof(struct dp_arena) + texts_at_most(s) * sizeof(struct dp_text) + s->strings;
}

static inline void lay_lists(struct dp_ctl *ctl, const struct dp_session *s)
{
	ctl->vars_cap = s->vars;
	ctl->objects_cap = s->objects;
	ctl->arenas_cap = s->objects + MORE_ARENAS;
	ctl->texts_cap = (uint32_t)texts_at_most(s);
	ctl->vars = (uint64_t *)(ctl + 1);
	ctl->objects = (struct dp_object *)(ctl->vars + ctl->vars_cap);
	ctl->arenas = (struct dp_arena *)(ctl->objects + ctl->objects_cap);
	ctl->texts = (struct dp_text *)(ctl->arenas + ctl->arenas_cap);
	ctl->strings = (char *)(ctl->texts + ctl->texts_cap);
}

#endif
