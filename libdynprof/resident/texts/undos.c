/* What sessions have patched, and what takes it back (patcher/patch/undo.go). */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "base/filters.h"
#include "base/lock.h"
#include "base/pages.h"
#include "stubs/arenas.h"
#include "texts/texts.h"
#include "texts/undos.h"

/* One session's; the list only grows. */
struct patched {
	const struct dp_undo_text *texts; /* in order of start */
	uint64_t count;
	uint64_t low, high; /* high is 0 when the objects are gone */
	uint64_t data, data_end; /* the pages of all that stands beside the arenas' code */
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
	dp_texts_add(p->data, p->data_end);
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

int dp_make_undos(const struct dp_ctl *ctl)
{
	struct dp_sessions *s = newest;
	if (!ctl->undos || (s && s->used < sizeof s->patched / sizeof *s->patched))
		return 1;
	long at = raw(SYS_mmap, 0, pages(sizeof *s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(at))
		return 0;
	dp_own((uint64_t)at, sizeof *s);
	s = (struct dp_sessions *)at;
	s->older = newest;
	__atomic_store_n(&newest, s, __ATOMIC_RELEASE);
	return 1;
}

void dp_note_undos(const struct dp_ctl *ctl)
{
	struct dp_sessions *s = newest;
	if (!ctl->undos)
		return;
	const struct dp_undo_text *texts = (const struct dp_undo_text *)ctl->undos, *last = &texts[ctl->undos_count - 1];
	const struct dp_arena *data = &ctl->arenas[ctl->arenas_count - 1];
	s->patched[s->used] = (struct patched){texts, ctl->undos_count, texts->start, last->start + last->size, data->at, data->at + data->size};
	__atomic_store_n(&s->used, s->used + 1, __ATOMIC_RELEASE);
	for (uint64_t i = 0; i < ctl->undos_count; i++)
		if (texts[i].kept_end)
			dp_own(texts[i].kept, texts[i].kept_end - texts[i].kept);
	if (dp_texts_begin())
		add_texts(&s->patched[s->used - 1]);
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
	if (p->data < high && p->data_end > low)
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
			if (__atomic_load_n(&p->high, __ATOMIC_RELAXED) <= w->low || p->low >= w->high)
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
	if (p->at != at)
		*p = (struct dp_page){at, ask(SYS_rt_sigprocmask, -1, at, 0, 8) == -EINVAL};
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
	struct dp_page page = {DP_NO_PAGE, 0};
	for (uint64_t i = 0; i < p->count; i++)
		if (dp_is_there(&page, p->texts[i].start))
			return 1;
	return 0;
}

void dp_forget_undos(void)
{
	int any = 0;
	for (struct dp_sessions *s = newest; s; s = s->older)
		for (uint64_t i = 0; i < s->used; i++)
			if (s->patched[i].high && !is_left(&s->patched[i])) {
				__atomic_store_n(&s->patched[i].high, 0, __ATOMIC_RELAXED);
				any = 1;
			}
	if (!any)
		return;
	dp_texts_begin();
	add_all_texts();
	dp_texts_end();
}
