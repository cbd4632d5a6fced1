/* What of ours is in text, and what of the program's. */
#include "base/pages.h"
#include "texts/exchange.h"
#include "texts/patched.h"
#include "texts/undos.h"

enum { FUNCTIONS = 1, SITES = 2, RETURNS = 4 };

/* What handlers return to: mov $15,%rax. */
int dp_is_return(const struct dp_undo *u)
{
	static const uint8_t mov[] = {0x48, 0xc7, 0xc0, 15, 0};
	return u->kind == DP_UNDO_SITE && u->len == sizeof mov && same_bytes(u->old, mov, sizeof mov);
}

static int kind_of(const struct dp_undo *u)
{
	if (u->kind != DP_UNDO_SITE)
		return FUNCTIONS;
	return dp_is_return(u) ? RETURNS : SITES;
}

/* Whether a change of ours of these kinds is in the range, or right in front of it. */
static int is_changed(uint64_t low, uint64_t high, int kinds)
{
	struct dp_text_walk w = dp_walk_texts(low, high);
	struct dp_page page = DP_NO_PAGE;
	for (const struct dp_undo_text *t; (t = dp_walk_on(&w));)
		for (uint32_t i = dp_first_near(t, low); i < t->count && dp_change_at(t, i) < high; i++) {
			const struct dp_undo undo = dp_undo_of(t, i);
			if (kind_of(&undo) & kinds && dp_concerns(&page, t, &undo, low))
				return 1;
		}
	return 0;
}

int dp_is_clean(void)
{
	return dp_has_undos() && !is_changed(0, ~0ULL, FUNCTIONS | SITES | RETURNS);
}

int dp_is_clean_but_for_returns(void) { return !is_changed(0, ~0ULL, FUNCTIONS | SITES); }

int dp_is_patched(uint64_t low, uint64_t high) { return is_changed(low, high, FUNCTIONS); }

int dp_has_site(uint64_t low, uint64_t high) { return is_changed(low, high, SITES | RETURNS); }

/* What of a change lies in a range; empty if none of it does. */
static struct dp_piece piece(const struct dp_undo_text *t, const struct dp_undo *u, uint64_t low, uint64_t high)
{
	uint64_t at = t->start + u->at, end = at + u->len;
	uint64_t from = at > low ? at : low, to = end < high ? end : high;
	struct dp_piece p = {.at = from, .len = from < to ? to - from : 0};
	for (uint64_t k = 0; k < p.len; k++) {
		p.old[k] = u->old[from - at + k];
		p.new[k] = u->new[from - at + k];
	}
	return p;
}

int dp_change_in(uint64_t low, uint64_t high, struct dp_piece *p)
{
	struct dp_text_walk w = dp_walk_texts(low, high);
	struct dp_page page = DP_NO_PAGE;
	for (const struct dp_undo_text *t; (t = dp_walk_on(&w));)
		for (uint32_t i = dp_first_near(t, low); i < t->count && dp_change_at(t, i) < high; i++) {
			const struct dp_undo undo = dp_undo_of(t, i);
			*p = piece(t, &undo, low, high);
			if (p->len && !same_bytes(p->old, p->new, p->len) && dp_is_made(&page, t, &undo))
				return 1;
		}
	return 0;
}

/* Whoever has been given pages of no file's cannot get the file's by giving them to
 * the kernel: they count as ours. */
uint64_t dp_patched_page(uint64_t low, uint64_t high)
{
	struct dp_text_walk w = dp_walk_texts(low, high);
	struct dp_page page = DP_NO_PAGE;
	for (const struct dp_undo_text *t; (t = dp_walk_on(&w));)
		for (uint32_t i = dp_first_near(t, low); i < t->count && dp_change_at(t, i) < high; i++) {
			const struct dp_undo undo = dp_undo_of(t, i);
			uint64_t at = t->start + undo.at;
			if (at + undo.len <= low || !(dp_is_made(&page, t, &undo) || __atomic_load_n(&dp_text_anonymous, __ATOMIC_RELAXED)))
				continue;
			at &= ~(uint64_t)(DP_PAGE_SIZE - 1);
			high = at > low ? at : low; /* there may be another in front */
			break;
		}
	return high;
}

int dp_is_here(uint64_t at, const uint8_t *bytes, uint64_t n)
{
	struct dp_page page = DP_NO_PAGE;
	return dp_is_there(&page, at) && dp_is_there(&page, at + n - 1) && same_bytes((const void *)at, bytes, n);
}

int dp_is_text(uint64_t address)
{
	struct dp_text_walk w = dp_walk_texts(address, address + 1);
	return dp_walk_on(&w) != 0;
}

int dp_next_text(uint64_t from, uint64_t *low, uint64_t *high)
{
	struct dp_text_walk w = dp_walk_texts(from, ~0ULL);
	const struct dp_undo_text *next = 0;
	for (const struct dp_undo_text *t; (t = dp_walk_on(&w));)
		if (t->start >= from && (!next || t->start < next->start))
			next = t;
	if (!next)
		return 0;
	*low = next->start;
	*high = next->start + next->size;
	return 1;
}

uint64_t dp_syscall_near(uint64_t address)
{
	struct dp_text_walk w = dp_walk_texts(address, address + 1);
	for (const struct dp_undo_text *t; (t = dp_walk_on(&w));)
		for (uint32_t i = 0; i < t->count; i++) {
			const struct dp_undo undo = dp_undo_of(t, i), *u = &undo;
			if (u->kind == DP_UNDO_SITE && dp_is_syscall(t->start + u->at + u->len))
				return t->start + u->at + u->len;
		}
	return 0;
}

uint64_t dp_returning_near(uint64_t address)
{
	static uint64_t found; /* mostly it is libc's */
	struct dp_text_walk w = dp_walk_texts(address, address + 1);
	for (const struct dp_undo_text *t; (t = dp_walk_on(&w));) {
		uint64_t at = __atomic_load_n(&found, __ATOMIC_RELAXED), end = t->start + t->size - 2;
		for (at = at >= t->start && at < end ? at : t->start; at < end; at++)
			if (dp_is_syscall(at) && *(const uint8_t *)(at + 2) == 0xc3) {
				__atomic_store_n(&found, at, __ATOMIC_RELAXED);
				return at;
			}
	}
	return 0;
}
