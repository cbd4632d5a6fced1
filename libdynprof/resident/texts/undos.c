/* What sessions have patched, and what takes it back (patcher/patch/undo.go).
 *
 * When all objects of a session are closed their arenas, and what tells of them, are as much
 * in nobody's use as their text: who is in a stub, or returns to one, would be in that text
 * otherwise, which the dynamic linker has unmapped. So these go, too; a program that opens and
 * closes a library for ever would have no mapping left else. What others might find:
 *
 *  1. That all texts are gone is not guessed: the kernel says that nothing lies in their place.
 *  2. The session is marked as gone, its arenas as closed, and the slots of their pages and of
 *     the texts' are emptied: nobody finds them any more, neither by address nor in a list.
 *  3. Who may have found them before is counted (dp_reads): handlers of signals, who changes
 *     text or memory, who pauses. If there is one by now they stay where they are, for good; so
 *     they do if lists elsewhere have come to refer to the texts.
 *  4. They are unmapped, and their entries serve others.
 * A child that is forked in between has them mapped, and does not know them. They stay where a
 * translator may have addresses in stubs, where perf has been told of them, and where a process
 * that was forked since has the same pages: who pauses here reaches its stubs by ours, but for
 * where the reserve is kept.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "base/filters.h"
#include "base/lock.h"
#include "base/mapped.h"
#include "base/pages.h"
#include "base/pieces.h"
#include "base/state.h"
#include "stubs/arenas.h"
#include "table/entries.h"
#include "table/view.h"
#include "texts/texts.h"
#include "texts/undos.h"

enum state {
	FREE,    /* nothing is mapped for it: the entry serves another */
	PATCHED,
	GONE,    /* so are its objects */
	GOES,    /* what is mapped for it is not to be looked at any more */
};

/* One session's. */
struct patched {
	uint32_t state;   /* enum state */
	uint32_t stays;   /* somebody else may know its arenas */
	uint32_t shared;  /* dp_arenas_shared, when it was noted */
	const struct dp_undo_text *texts; /* in order of start */
	uint64_t count;
	uint64_t low, high; /* high is 0 when the objects are gone */
	uint64_t data, data_end; /* the pages of all that stands beside the arenas' code, */
	uint64_t origins, origins_end; /* but for these, if a planner has made them */
};

struct dp_sessions {
	struct dp_sessions *older;
	uint64_t used; /* stored last */
	struct patched patched[DP_PAGE_SIZE / sizeof(struct patched) - 1];
};

static struct dp_sessions *newest;

/* What takes the place of the arenas that they lead to is looked for as well
 * (replaced.c). */
static void add_texts(const struct patched *p)
{
	if (p->state == FREE)
		return;
	dp_texts_add(p->data, p->data_end);
	if (p->origins)
		dp_texts_add(p->origins, p->origins_end);
	for (uint64_t i = 0; i < p->count; i++)
		if (p->texts[i].kept_end)
			dp_texts_add(p->texts[i].kept, p->texts[i].kept_end);
	for (uint64_t i = 0; p->high && i < p->count; i++) {
		const struct dp_undo_text *t = &p->texts[i];
		const struct dp_known *k = dp_arena_of_text(t->start);
		dp_texts_add(t->start, t->start + t->size);
		if (!k || k->gone)
			continue;
		dp_texts_add(k->at, k->whole);
		if (k->lasting)
			dp_texts_add((uint64_t)k->lasting, (uint64_t)k->lasting + (k->end - k->at));
	}
}

static void add_all_texts(void)
{
	dp_texts_forget();
	for (struct dp_sessions *s = newest; s; s = s->older)
		for (uint64_t i = 0; i < s->used; i++)
			add_texts(&s->patched[i]);
}

/* An entry for one more; 0: there is no room. */
static struct patched *free_entry(void)
{
	enum { MOST = sizeof newest->patched / sizeof *newest->patched };
	for (struct dp_sessions *s = newest; s; s = s->older)
		for (uint64_t i = 0; i < s->used; i++)
			if (s->patched[i].state == FREE)
				return &s->patched[i];
	return newest && newest->used < MOST ? &newest->patched[newest->used] : 0;
}

int dp_make_undos(const struct dp_ctl *ctl)
{
	struct dp_sessions *s;
	if (!ctl->undos || free_entry())
		return 1;
	s = dp_zeros(sizeof *s, 0);
	if (!s)
		return 0;
	s->older = newest;
	__atomic_store_n(&newest, s, __ATOMIC_RELEASE);
	return 1;
}

/* Readers look at the rest of an entry when they have found that it is not FREE, and has a
 * high end. */
static void fill_in(struct patched *p, const struct dp_ctl *ctl)
{
	const struct dp_undo_text *texts = (const struct dp_undo_text *)ctl->undos, *last = &texts[ctl->undos_count - 1];
	const struct dp_arena *data = &ctl->arenas[ctl->arenas_count - 1], *origins = data - 1;
	int has_origins = ctl->arenas_count > 1 && !origins->cold;
	p->texts = texts;
	p->count = ctl->undos_count;
	p->low = texts->start;
	p->data = data->at;
	p->data_end = data->at + data->size;
	p->origins = has_origins ? origins->at : 0;
	p->origins_end = has_origins ? origins->at + origins->size : 0;
	p->stays = ctl->announce || dp.translator;
	p->shared = dp_arenas_shared;
	__atomic_store_n(&p->state, PATCHED, __ATOMIC_RELEASE);
	__atomic_store_n(&p->high, last->start + last->size, __ATOMIC_RELEASE);
}

void dp_note_undos(const struct dp_ctl *ctl)
{
	if (!ctl->undos)
		return;
	const struct dp_undo_text *texts = (const struct dp_undo_text *)ctl->undos;
	struct patched *p = free_entry();
	fill_in(p, ctl);
	if (p == &newest->patched[newest->used])
		__atomic_store_n(&newest->used, newest->used + 1, __ATOMIC_RELEASE);
	for (uint64_t i = 0; i < ctl->undos_count; i++)
		if (texts[i].kept_end)
			dp_own(texts[i].kept, texts[i].kept_end - texts[i].kept);
	if (dp_texts_begin())
		add_texts(p);
	else
		add_all_texts();
	dp_texts_end();
}

int dp_has_undos(void)
{
	const struct dp_sessions *s = __atomic_load_n(&newest, __ATOMIC_ACQUIRE);
	return s && (s->older || __atomic_load_n(&s->used, __ATOMIC_ACQUIRE));
}

static int has_data(const struct patched *p, uint64_t low, uint64_t high)
{
	uint32_t state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
	if (state == FREE || state == GOES)
		return 0;
	if ((p->data < high && p->data_end > low) || (p->origins < high && p->origins_end > low))
		return 1;
	for (uint64_t i = 0; i < p->count; i++)
		if (p->texts[i].kept < high && p->texts[i].kept_end > low)
			return 1;
	return 0;
}

int dp_has_data(uint64_t low, uint64_t high)
{
	for (const struct dp_sessions *s = __atomic_load_n(&newest, __ATOMIC_ACQUIRE); s; s = s->older)
		for (uint64_t i = 0, used = __atomic_load_n(&s->used, __ATOMIC_ACQUIRE); i < used; i++)
			if (has_data(&s->patched[i], low, high))
				return 1;
	return 0;
}

const struct dp_undo_text *dp_walk_on(struct dp_text_walk *w)
{
	for (; w->sessions; w->sessions = w->sessions->older, w->session = 0) {
		uint64_t used = __atomic_load_n(&w->sessions->used, __ATOMIC_ACQUIRE);
		for (; w->session < used; w->session++, w->text = 0) {
			const struct patched *p = &w->sessions->patched[w->session];
			if (__atomic_load_n(&p->high, __ATOMIC_ACQUIRE) <= w->low || p->low >= w->high)
				continue;
			while (w->text < p->count) {
				const struct dp_undo_text *t = &p->texts[w->text++];
				if (t->start < w->high && t->start + t->size > w->low)
					return t;
			}
		}
	}
	return 0;
}

struct dp_text_walk dp_walk_texts(uint64_t low, uint64_t high)
{
	return (struct dp_text_walk){low, high, __atomic_load_n(&newest, __ATOMIC_ACQUIRE), 0, 0};
}

static struct dp_undo undo_call(const struct dp_undo_text *t, const struct dp_led *led, uint32_t at)
{
	struct dp_undo u = {.at = at, .group = dp_group(t, led->group), .needs = DP_NO_GROUP, .moved = sizeof(uint32_t), .len = sizeof(uint32_t), .kind = DP_UNDO_CALL};
	*(uint32_t *)u.old = dp_call_old(led, at);
	*(uint32_t *)u.new = dp_call_new(led, at);
	return u;
}

struct dp_undo dp_undo_of(const struct dp_undo_text *t, uint32_t i)
{
	const struct dp_listed *l = &dp_listed_of(t)[i];
	if (dp_is_call(t, i))
		return undo_call(t, dp_led_of(t, i), l->at);
	const struct dp_overwritten *o = dp_overwritten_of(t, i);
	struct dp_undo u = {.at = l->at, .group = dp_group(t, o->group), .needs = dp_group(t, o->needs), .moved = o->moved, .len = o->len, .kind = o->kind};
	for (int k = 0; k < DP_MOST_CHANGED; k++) {
		u.old[k] = o->old[k];
		u.new[k] = o->new[k];
	}
	return u;
}

uint32_t dp_first_near(const struct dp_undo_text *t, uint64_t address)
{
	uint32_t low = 0, high = t->count;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		if (dp_change_at(t, mid) + t->longest < address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The kernel reads a mask before it finds that there is no such operation. */
int dp_is_there(struct dp_page *p, uint64_t at)
{
	at &= ~(uint64_t)(DP_PAGE_SIZE - 1);
	if (at < p->at || at >= p->behind)
		*p = (struct dp_page){at, at + DP_PAGE_SIZE, ask(SYS_rt_sigprocmask, -1, at, 0, 8) == -EINVAL};
	return p->there;
}

int dp_is_made(struct dp_page *p, const struct dp_undo_text *t, const struct dp_undo *u)
{
	uint64_t at = t->start + u->at;
	return dp_is_there(p, at) && dp_is_there(p, at + u->len - 1) && same_bytes((const void *)at, u->new, u->len);
}

int dp_concerns(struct dp_page *p, const struct dp_undo_text *t, const struct dp_undo *u, uint64_t low)
{
	return t->start + u->at + dp_span(u->moved) > low && dp_is_made(p, t, u);
}

/* Whether one of a session's objects is left. */
static int is_left(const struct patched *p)
{
	struct dp_page page = DP_NO_PAGE;
	for (uint64_t i = 0; i < p->count; i++)
		if (dp_is_there(&page, p->texts[i].start))
			return 1;
	return 0;
}

static int is_closed(const struct patched *p)
{
	for (uint64_t i = 0; i < p->count; i++)
		if (!dp_is_empty(p->texts[i].start, p->texts[i].size, p->data))
			return 0;
	return 1;
}

static void unmap(uint64_t low, uint64_t high)
{
	if (low >= high)
		return;
	dp_disown(low);
	ask(SYS_munmap, low, high - low);
}

/* The lists of an object's texts are on the same pages. */
static void unmap_lists(const struct patched *p)
{
	for (uint64_t i = 0; i < p->count; i++) {
		uint64_t first = 0;
		while (p->texts[first].kept != p->texts[i].kept)
			first++;
		if (first == i)
			unmap(p->texts[i].kept, p->texts[i].kept_end);
	}
}

/* The table says of the objects that their arenas are no more: nobody has to pause them. */
static void note_closed(const struct patched *p)
{
	struct dp_header *view = dp_view();
	uint32_t functions = view ? dp_in_use(&view->functions) : 0;
	for (uint64_t i = 0; i < p->count; i++) {
		const struct dp_undo_text *t = &p->texts[i];
		if (t->functions >= t->functions_end || t->functions >= functions)
			continue;
		struct dp_object_entry *o = (struct dp_object_entry *)dp_object_of(view, dp_function_at(view, t->functions));
		__atomic_store_n(&o->arena, 0, __ATOMIC_RELAXED);
	}
}

/* Whether another process may have them, and who pauses would not reach these from here. */
static int is_shared(const struct patched *p)
{
	return !dp.reserve && p->shared != __atomic_load_n(&dp_arenas_shared, __ATOMIC_RELAXED);
}

/* Unmaps what a session of closed objects has, if it is sure that nobody looks at it. */
static int release(struct patched *p, int (*refers)(const struct dp_undo_text *first, uint64_t count))
{
	if (p->stays || is_shared(p) || dp_is_read() || !is_closed(p))
		return 0;
	__atomic_store_n(&p->state, GOES, __ATOMIC_SEQ_CST);
	for (uint64_t i = 0; i < p->count; i++)
		dp_arenas_close(p->data, p->texts[i].start, p->texts[i].start + p->texts[i].size);
	note_closed(p);
	if (dp_is_read() || refers(p->texts, p->count)) {
		dp_arenas_leave(p->data);
		p->stays = 1;
		__atomic_store_n(&p->state, GONE, __ATOMIC_RELEASE);
		return 0;
	}
	dp_arenas_unmap(p->data);
	unmap_lists(p);
	unmap(p->origins, p->origins_end);
	unmap(p->data, p->data_end);
	__atomic_store_n(&p->state, FREE, __ATOMIC_RELEASE);
	return 1;
}

static int forget(struct patched *p, int (*refers)(const struct dp_undo_text *first, uint64_t count))
{
	int any = 0;
	if (p->state == PATCHED && !is_left(p)) {
		__atomic_store_n(&p->high, 0, __ATOMIC_SEQ_CST);
		p->state = GONE;
		any = 1;
	}
	return (p->state == GONE && release(p, refers)) || any;
}

void dp_forget_undos(int (*refers)(const struct dp_undo_text *first, uint64_t count))
{
	int any = 0;
	for (struct dp_sessions *s = newest; s; s = s->older)
		for (uint64_t i = 0; i < s->used; i++)
			any |= forget(&s->patched[i], refers);
	if (!any)
		return;
	dp_texts_begin();
	add_all_texts();
	dp_texts_end();
}
