/* Which changes of ours go when a program changes its text. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "base/filters.h"
#include "base/lock.h"
#include "base/pages.h"
#include "base/state.h"
#include "texts/change.h"

static void mark(struct dp_change *c, const struct dp_undo_text *t, const struct dp_undo *u)
{
	if (u->group >= c->functions || dp_is_marked(c, u->group) || !dp_is_made(c->page, t, u))
		return;
	c->marks[u->group / 8] |= (uint8_t)(1 << u->group % 8);
	c->marked++;
}

void dp_mark_range(struct dp_change *c)
{
	struct dp_text_walk w = dp_walk_texts(c->low, c->high);
	for (const struct dp_undo_text *t; (t = dp_walk_on(&w));)
		for (uint32_t i = dp_first_near(t, c->low); i < t->count && t->start + dp_undos_of(t)[i].at < c->high; i++) {
			const struct dp_undo *u = &dp_undos_of(t)[i];
			if (!dp_concerns(c->page, t, u, c->low))
				continue;
			if (u->kind == DP_UNDO_CALL)
				c->calls++;
			else
				mark(c, t, u); /* not sites, which have no function */
		}
}

void dp_mark_guests(struct dp_change *c)
{
	for (uint32_t before = ~0U; before != c->marked;) {
		before = c->marked;
		struct dp_text_walk w = dp_walk_texts(0, ~0ULL);
		for (const struct dp_undo_text *t; (t = dp_walk_on(&w));)
			for (uint32_t i = 0; i < t->count; i++)
				if (dp_is_marked(c, dp_undos_of(t)[i].needs))
					mark(c, t, &dp_undos_of(t)[i]);
	}
}

int dp_goes(const struct dp_change *c, const struct dp_undo_text *t, const struct dp_undo *u)
{
	uint64_t at = t->start + u->at;
	if (!c->all && u->kind == DP_UNDO_CALL && at < c->high && at + u->len > c->low)
		return 1;
	return dp_is_marked(c, u->group) && !dp_has_bit(c, c->hosts, u->group) && (u->kind != DP_UNDO_ISLAND || c->later);
}

int dp_has_islands(const struct dp_change *c)
{
	struct dp_text_walk w = dp_walk_texts(0, ~0ULL);
	for (const struct dp_undo_text *t; (t = dp_walk_on(&w));)
		for (uint32_t i = 0; i < t->count; i++) {
			const struct dp_undo *u = &dp_undos_of(t)[i];
			if (u->kind == DP_UNDO_ISLAND && dp_is_marked(c, u->group) && !dp_has_bit(c, c->hosts, u->group) && dp_is_made(c->page, t, u))
				return 1;
		}
	return 0;
}

uint32_t dp_note_hosts(const struct dp_change *c)
{
	uint32_t guests = 0;
	for (uint64_t i = 0; i < c->functions / 8 + 1; i++)
		c->hosts[i] = 0;
	struct dp_text_walk w = dp_walk_texts(0, ~0ULL);
	for (const struct dp_undo_text *t; (t = dp_walk_on(&w));)
		for (uint32_t i = 0; i < t->count; i++) {
			const struct dp_undo *u = &dp_undos_of(t)[i];
			if (u->needs >= c->functions || !dp_is_marked(c, u->group) || !dp_is_made(c->page, t, u))
				continue;
			c->hosts[u->needs / 8] |= (uint8_t)(1 << u->needs % 8);
			guests++;
		}
	return guests;
}

/* For a bit of each function and another. When it grows the older, half as large, stays
 * where it is: somebody may be giving back. */
struct marks {
	uint64_t words; /* of both kinds */
	uint64_t bits[];
};

static struct marks *marks;

int dp_make_marks(void)
{
	uint64_t words = dp.table->functions.count / 64 + 1, had = marks ? marks->words : 0;
	if (words <= had)
		return 1;
	words = words < 2 * had ? 2 * had : words;
	uint64_t size = sizeof *marks + 2 * words * sizeof *marks->bits;
	long at = raw(SYS_mmap, 0, pages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(at))
		return 0;
	dp_own((uint64_t)at, size);
	((struct marks *)at)->words = words;
	__atomic_store_n(&marks, (struct marks *)at, __ATOMIC_RELEASE);
	return 1;
}

void dp_take_marks(struct dp_change *c)
{
	struct marks *m = __atomic_load_n(&marks, __ATOMIC_ACQUIRE);
	uint64_t count = dp.table->functions.count; /* another process may have more than this knows */
	c->functions = count < 64 * m->words ? count : 64 * m->words;
	c->marks = (uint8_t *)m->bits;
	c->hosts = (uint8_t *)(m->bits + m->words);
	for (uint64_t i = 0; i < 2 * m->words; i++)
		m->bits[i] = 0;
}
