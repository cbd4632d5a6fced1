/* Which changes of ours go when a program changes its text. */
#define _GNU_SOURCE
#include "texts/change.h"
#include "texts/hooked.h"
#include "texts/patched.h"

static int overlaps(const struct dp_change *c, const struct dp_undo_text *t)
{
	return t->start < c->high && t->start + t->size > c->low;
}

const struct dp_undo_text *dp_walk_concerned(const struct dp_change *c, struct dp_text_walk *w)
{
	const struct dp_undo_text *t;
	while ((t = dp_walk_on(w)) && !c->all && !overlaps(c, t))
		if (t == c->calls_of || (c->first < t->functions_end && c->last >= t->functions))
			break;
	return t;
}

static void mark(struct dp_change *c, const struct dp_undo_text *t, const struct dp_undo *u)
{
	if (u->group < c->functions && !dp_is_marked(c, u->group) && dp_is_made(c->page, t, u))
		dp_mark(c, u->group);
}

void dp_mark_range(struct dp_change *c)
{
	struct dp_text_walk w = dp_walk_texts(c->low, c->high);
	for (const struct dp_undo_text *t; (t = dp_walk_on(&w));)
		for (uint32_t i = dp_first_near(t, c->low); i < t->count && dp_change_at(t, i) < c->high; i++) {
			const struct dp_undo undo = dp_undo_of(t, i), *u = &undo;
			if (!dp_concerns(c->page, t, u, c->low))
				continue;
			if (u->kind == DP_UNDO_CALL)
				c->calls++;
			else
				mark(c, t, u); /* not sites, which have no function */
		}
}

static const uint64_t *standing_in(const struct dp_change *c, const struct dp_undo_text *t)
{
	const struct dp_hooked *h = dp_hooked_text(c, t);
	return h ? h->standing : 0;
}

void dp_mark_guests(struct dp_change *c)
{
	for (uint32_t before = ~0U; before != c->marked;) {
		before = c->marked;
		struct dp_text_walk w = dp_walk_texts(0, ~0ULL);
		for (const struct dp_undo_text *t; (t = dp_walk_concerned(c, &w));) {
			const uint64_t *standing = standing_in(c, t);
			for (uint32_t i = dp_next_bit(standing, 0, t->count); i < t->count; i = dp_next_bit(standing, i + 1, t->count)) {
				const struct dp_undo undo = dp_undo_of(t, i);
				if (dp_is_marked(c, undo.needs))
					mark(c, t, &undo);
			}
		}
	}
}

int dp_goes(const struct dp_change *c, const struct dp_undo_text *t, const struct dp_undo *u)
{
	uint64_t at = t->start + u->at;
	if (!c->all && u->kind == DP_UNDO_CALL && (t == c->calls_of || (at < c->high && at + u->len > c->low)))
		return 1;
	return dp_is_marked(c, u->group) && !dp_has_bit(c, c->hosts, u->group) && (u->kind != DP_UNDO_ISLAND || c->later) && (c->returns || !dp_is_return(u));
}

int dp_has_islands(const struct dp_change *c)
{
	struct dp_text_walk w = dp_walk_texts(0, ~0ULL);
	for (const struct dp_undo_text *t; (t = dp_walk_concerned(c, &w));) {
		const uint64_t *standing = standing_in(c, t);
		for (uint32_t i = dp_next_bit(standing, 0, t->count); i < t->count; i = dp_next_bit(standing, i + 1, t->count)) {
			const struct dp_undo undo = dp_undo_of(t, i), *u = &undo;
			if (u->kind == DP_UNDO_ISLAND && dp_is_marked(c, u->group) && !dp_has_bit(c, c->hosts, u->group) && dp_is_made(c->page, t, u))
				return 1;
		}
	}
	return 0;
}

uint32_t dp_note_hosts(const struct dp_change *c)
{
	uint32_t guests = 0;
	for (uint64_t i = c->first / 8; i <= c->last / 8; i++) /* only marked ones are asked for */
		c->hosts[i] = 0;
	struct dp_text_walk w = dp_walk_texts(0, ~0ULL);
	for (const struct dp_undo_text *t; (t = dp_walk_concerned(c, &w));) {
		const uint64_t *standing = standing_in(c, t);
		for (uint32_t i = dp_next_bit(standing, 0, t->count); i < t->count; i = dp_next_bit(standing, i + 1, t->count)) {
			const struct dp_undo undo = dp_undo_of(t, i), *u = &undo;
			if (u->needs >= c->functions || !dp_is_marked(c, u->group) || !dp_is_made(c->page, t, u))
				continue;
			c->hosts[u->needs / 8] |= (uint8_t)(1 << u->needs % 8);
			guests++;
		}
	}
	return guests;
}
