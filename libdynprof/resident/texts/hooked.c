/* A program that hooks functions does so thousands of times, and makes the pages of each
 * writable by themselves. Each time all changes of its text would have to be looked at,
 * and all pages with callers be exchanged. So:
 *
 *  1. The first time the text's changes are listed by the functions that they are of.
 *     Of them those that may go are picked, and only they are looked at.
 *  2. When pages have been exchanged for callers so often that to do it once for all
 *     would hardly have taken longer, all calls of the text are given back: they go by
 *     the entries again, where they are counted as before. Who is hooked then has no
 *     caller any more whose page must be looked at, or exchanged.
 * Without memory for the list all changes are looked at each time. All but dp_text_is_back
 * is for the thread that gives back (giveback.c).
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "base/filters.h"
#include "base/layout.h"
#include "base/lock.h"
#include "base/pages.h"
#include "texts/exchange.h"
#include "texts/hooked.h"

static struct dp_hooked *newest;

static uint64_t words_of(const struct dp_undo_text *t) { return t->count / 64 + 1; }

static int goes_whole(const struct dp_change *c, const struct dp_undo_text *t)
{
	return c->low <= t->start && c->high >= t->start + t->size;
}

static void set(uint64_t *bits, uint32_t i) { bits[i / 64] |= 1ULL << i % 64; }

/* Sorts by counting: first[g + 2] is how many changes functions up to g have; then
 * first[g + 1] is where the next change of g goes. */
static void list_changes(struct dp_hooked *h)
{
	const struct dp_undo_text *t = h->text;
	uint32_t functions = t->functions_end - t->functions;
	for (uint32_t i = 0; i < t->count; i++) {
		uint32_t g = dp_undo_of(t, i).group - t->functions;
		if (g < functions)
			h->first[g + 2]++;
	}
	for (uint32_t g = 0; g < functions; g++)
		h->first[g + 2] += h->first[g + 1];
	for (uint32_t i = 0; i < t->count; i++) {
		const struct dp_undo undo = dp_undo_of(t, i);
		if (undo.group - t->functions < functions)
			h->numbers[h->first[undo.group - t->functions + 1]++] = i;
		if (undo.kind == DP_UNDO_ISLAND || undo.needs != DP_NO_GROUP)
			set(h->standing, i);
	}
}

struct dp_hooked *dp_hooked_text(const struct dp_change *c, const struct dp_undo_text *t)
{
	struct dp_hooked *h = c->all || goes_whole(c, t) ? 0 : newest;
	while (h && h->text != t)
		h = h->next;
	return h;
}

void dp_list_text(struct dp_change *c, const struct dp_undo_text *t)
{
	if (c->all || goes_whole(c, t) || dp_hooked_text(c, t))
		return;
	uint64_t functions = t->functions_end - t->functions, bits = words_of(t) * sizeof(uint64_t);
	uint64_t size = sizeof(struct dp_hooked) + 2 * bits + (functions + 2 + t->count) * sizeof(uint32_t);
	long at = dp_map_anonymous(pages(size));
	if (failed(at))
		return;
	dp_own((uint64_t)at, size);
	if (dp_locks_new())
		ask(SYS_munlock, at, size);
	struct dp_hooked *h = (struct dp_hooked *)at;
	h->text = t;
	h->picked = (uint64_t *)(h + 1);
	h->standing = h->picked + words_of(t);
	h->first = (uint32_t *)(h->standing + words_of(t));
	h->numbers = h->first + functions + 2;
	list_changes(h);
	h->next = newest;
	__atomic_store_n(&newest, h, __ATOMIC_RELEASE); /* a forked child has it whole */
}

/* ---- what goes -------------------------------------------------------- */

/* Whether all calls shall go. To exchange a page alone takes as long as some eight of a
 * long run. What may be written to at any time is left alone. */
static int is_enough(const struct dp_hooked *h)
{
	enum { LEAST = 64, ALONE = 8 };
	return !(h->text->prot & PROT_WRITE) && h->exchanged > LEAST + h->text->size / (ALONE * DP_PAGE_SIZE);
}

static void pick_function(struct dp_hooked *h, uint32_t g)
{
	int gone = __atomic_load_n(&h->calls_gone, __ATOMIC_RELAXED);
	for (uint32_t k = h->first[g]; k < h->first[g + 1]; k++)
		if (!gone || !dp_is_call(h->text, h->numbers[k]))
			set(h->picked, h->numbers[k]);
}

static void pick_calls(struct dp_hooked *h)
{
	for (uint32_t i = 0; i < h->text->count; i++)
		if (dp_is_call(h->text, i))
			set(h->picked, i);
}

void dp_pick(struct dp_change *c, const struct dp_undo_text *t)
{
	struct dp_hooked *h = dp_hooked_text(c, t);
	if (!h)
		return;
	for (uint64_t i = 0; i < words_of(t); i++)
		h->picked[i] = 0;
	for (uint64_t g = c->first > t->functions ? c->first : t->functions; g <= c->last && g < t->functions_end; g++)
		if (dp_is_marked(c, (uint32_t)g))
			pick_function(h, (uint32_t)g - t->functions);
	for (uint32_t i = dp_first_near(t, c->low); i < t->count && dp_change_at(t, i) < c->high; i++)
		set(h->picked, i);
	if (!c->calls_of && is_enough(h))
		c->calls_of = t;
	if (c->calls_of == t) {
		pick_calls(h);
		h->exchanged = 0;
	}
}

void dp_went(struct dp_change *c, const struct dp_undo_text *t)
{
	struct dp_hooked *h = dp_hooked_text(c, t);
	int left = 0;
	if (!h || c->calls_of != t)
		return;
	for (uint32_t i = 0; i < t->count && !left; i++) {
		const struct dp_undo undo = dp_undo_of(t, i);
		left = undo.kind == DP_UNDO_CALL && dp_is_made(c->page, t, &undo);
	}
	__atomic_store_n(&h->calls_gone, !left, __ATOMIC_RELAXED);
}

void dp_text_is_back(uint64_t low, uint64_t high)
{
	for (struct dp_hooked *h = __atomic_load_n(&newest, __ATOMIC_ACQUIRE); h; h = h->next)
		if (h->text->start < high && h->text->start + h->text->size > low)
			__atomic_store_n(&h->calls_gone, 0, __ATOMIC_RELAXED);
}

int dp_is_listed(const struct dp_undo_text *first, uint64_t count)
{
	for (struct dp_hooked *h = __atomic_load_n(&newest, __ATOMIC_ACQUIRE); h; h = h->next)
		if (h->text >= first && h->text < first + count)
			return 1;
	return 0;
}
