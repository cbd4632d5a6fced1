/* Whether a file is a plan, and all in it is where what uses it relies on. It may be
 * anything: internal/plancache/decode.go says the same of it. */
#include "base/pages.h"
#include "base/stub.h"
#include "base/sum.h"
#include "table/entries.h"
#include "texts/undos.h"
#include "warm/warm.h"

/* Sections begin at multiples of that. */
enum { ALIGNED = 16 };

static int is_section(const struct dp_plan_part *s, uint64_t entry, uint64_t size)
{
	return s->entry_size == entry && s->offset >= DP_PLAN_HEADER_SIZE && s->offset % ALIGNED == 0 && s->offset <= size && s->count <= (size - s->offset) / entry;
}

static int has_sections(const struct dp_plan_file *p)
{
	uint64_t n = p->file_size;
	return is_section(&p->key, 1, n) && is_section(&p->build_id, 1, n) && is_section(&p->texts, sizeof(struct dp_plan_text), n) &&
	       is_section(&p->stubs, 1, n) && is_section(&p->fixups, sizeof(struct dp_plan_fixup), n) &&
	       is_section(&p->records, sizeof(struct dp_origin), n) && is_section(&p->lengths, 1, n) && is_section(&p->by_text, 4, n) &&
	       is_section(&p->islands, sizeof(struct dp_plan_island), n) && is_section(&p->listed, sizeof(struct dp_listed), n) &&
	       is_section(&p->patches, sizeof(struct dp_overwritten), n) && is_section(&p->leds, sizeof(struct dp_led), n) &&
	       is_section(&p->functions, sizeof(struct dp_function), n) && is_section(&p->aliases, 4, n) &&
	       is_section(&p->strings, 1, n) && is_section(&p->path, 1, n) && is_section(&p->creator, 1, n) &&
	       is_section(&p->blocks, sizeof(struct dp_block), n) && is_section(&p->ways, sizeof(struct dp_way), n) && is_section(&p->loops, sizeof(struct dp_loop), n) &&
	       is_section(&p->sites, sizeof(struct dp_site), n);
}

static int is_whole(const struct dp_plan_file *p, uint64_t size)
{
	uint64_t from = DP_PLAN_CHECK + sizeof p->check;
	return size >= sizeof *p && same_bytes(p->magic, DP_FILE_MAGIC, sizeof p->magic) && p->version == DP_FILE_VERSION &&
	       p->hdr_size == DP_PLAN_HEADER_SIZE && p->file_size == size && p->check == dp_xxh64((const uint8_t *)p + from, size - from) && has_sections(p);
}

/* Two addresses are out of each other's reach; one may be below 0. */
static int is_far(uint64_t a, uint64_t b)
{
	int64_t d = (int64_t)(a - b);
	return d >= 1ll << 31 || d <= -(1ll << 31);
}

/* Whether [at, at+n) is of the object. */
static int has(const struct dp_plan_file *p, uint64_t at, uint64_t n) { return at >= p->low && at < p->high && n <= p->high - at; }

static int is_paged(uint64_t at) { return at % DP_PAGE_SIZE == 0; }

static int good_header(const struct dp_plan_file *p)
{
	uint64_t size = p->arena_size;
	if (p->low >= p->high || !is_paged(p->low) || !is_paged(p->high) || p->high > 1ull << 47)
		return 0;
	if (!is_paged(size) || !is_paged(p->arena) || size != p->stubs.count || p->cold > p->keeps || p->keeps > size)
		return 0;
	if (size && (!p->cold || is_far(p->arena, p->high) || is_far(p->arena + size, p->low)))
		return 0;
	return (!p->hook || has(p, p->hook, 1)) && p->reason <= UINT8_MAX;
}

/* ---- changes ------------------------------------------------------------ */

static int good_patch(const struct dp_overwritten *o, uint32_t functions)
{
	if (o->len == 0 || o->len > DP_MOST_CHANGED || (o->needs != DP_NO_GROUP && o->needs >= functions))
		return 0;
	if (o->kind == DP_UNDO_SITE)
		return o->group == DP_NO_GROUP;
	return o->group < functions && o->kind <= DP_UNDO_ISLAND;
}

/* The changes of a text are in the order of their addresses, its patches in theirs. */
static int good_changes(const struct dp_plan_text *t, const struct dp_listed *l, const struct dp_overwritten *patches, uint32_t functions)
{
	uint32_t last = 0, next = 0;
	for (uint32_t i = 0; i < t->listed; i++, l++) {
		uint64_t n = sizeof(uint32_t);
		if (l->of & DP_CALL_BIT) {
			if (l->at == 0 || (l->of & ~(DP_CALL_BIT | DP_SLOT_BIT)) >= t->leds) /* the opcode is in front */
				return 0;
		} else {
			if (l->of != next || next == t->patches || !good_patch(&patches[next], functions))
				return 0;
			n = patches[next++].len;
		}
		if (l->at < last || l->at + n > t->size)
			return 0;
		last = l->at;
	}
	return next == t->patches;
}

static int good_leds(const struct dp_plan_file *p)
{
	const struct dp_led *leds = dp_part(p, &p->leds);
	for (uint32_t i = 0; i < p->leds.count; i++)
		if (leds[i].group >= p->functions.count)
			return 0;
	return 1;
}

static int good_text(const struct dp_plan_file *p, const struct dp_plan_text *t, uint64_t end)
{
	return t->start >= end && is_paged(t->start) && t->size && is_paged(t->size) && has(p, t->start, t->size) && t->size <= UINT32_MAX && t->prot <= 7;
}

static int good_texts(const struct dp_plan_file *p)
{
	const struct dp_plan_text *texts = dp_part(p, &p->texts);
	const struct dp_listed *listed = dp_part(p, &p->listed);
	const struct dp_overwritten *patches = dp_part(p, &p->patches);
	uint64_t listed_left = p->listed.count, patches_left = p->patches.count, leds_left = p->leds.count, end = p->low;
	for (uint32_t i = 0; i < p->texts.count; i++) {
		const struct dp_plan_text *t = &texts[i];
		if (!good_text(p, t, end) || t->listed > listed_left || t->patches > patches_left || t->leds > leds_left ||
		    !good_changes(t, listed, patches, p->functions.count))
			return 0;
		end = t->start + t->size;
		listed += t->listed, listed_left -= t->listed;
		patches += t->patches, patches_left -= t->patches;
		leds_left -= t->leds;
	}
	return !listed_left && !patches_left && !leds_left && (p->arena_size || !p->listed.count) && good_leds(p);
}

/* ---- the arena ---------------------------------------------------------- */

static int good_fixups(const struct dp_plan_file *p)
{
	const struct dp_plan_fixup *f = dp_part(p, &p->fixups);
	uint64_t end = 0;
	for (uint32_t i = 0; i < p->fixups.count; i++, f++) {
		uint64_t n = f->kind <= DP_FIX_CODE ? 4 : 8;
		if (f->at < end || f->kind > DP_FIX_RETURN || f->at + n > p->arena_size)
			return 0;
		end = f->at + n;
	}
	return 1;
}

/* Whether the record's instructions have lengths, and its count, which is changed when
 * counting ends, is in front of the cold blocks. No stub that is kept has a front. */
static int good_record(const struct dp_plan_file *p, const struct dp_origin *o)
{
	enum { LEAST_COUNT = 2 };
	const uint8_t *lengths = dp_part(p, &p->lengths);
	uint64_t from = o->lengths, n = o->few, count = o->small, all = p->lengths.count;
	if (from % 2 || (o->flags & DP_HAS_FRONT))
		return 0;
	if (o->flags & DP_IS_LONG) {
		if (from + DP_LONG_SIZE > all)
			return 0;
		n = *(const __attribute__((may_alias)) uint32_t *)(lengths + from + DP_LONG_MANY);
		count = *(const __attribute__((may_alias)) uint32_t *)(lengths + from + DP_LONG_COUNT);
		from += DP_LONG_SIZE;
	}
	return from + 2 * n <= all && (!count || (count >= LEAST_COUNT && o->at + count <= p->cold));
}

static int good_records(const struct dp_plan_file *p)
{
	const struct dp_origin *o = dp_part(p, &p->records);
	const uint32_t *by_text = dp_part(p, &p->by_text);
	uint32_t last = 0, n = p->records.count;
	int32_t before = INT32_MIN;
	if (p->by_text.count != n)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		if (o[i].at < last || o[i].at >= p->arena_size || !good_record(p, &o[i]))
			return 0;
		last = o[i].at;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (by_text[i] >= n || o[by_text[i]].from < before || !has(p, p->arena + (uint64_t)(int64_t)o[by_text[i]].from, 1))
			return 0;
		before = o[by_text[i]].from;
	}
	return 1;
}

static int good_islands(const struct dp_plan_file *p)
{
	const struct dp_plan_island *l = dp_part(p, &p->islands);
	uint64_t last = 0;
	for (uint32_t i = 0; i < p->islands.count; i++, l++) {
		if (l->at < last || !has(p, l->at, 1) || !has(p, l->from, 1))
			return 0;
		last = l->at;
	}
	return 1;
}

/* ---- the ledger --------------------------------------------------------- */

static int good_strings(const struct dp_plan_file *p)
{
	const char *s = dp_part(p, &p->strings);
	const uint32_t *a = dp_part(p, &p->aliases);
	uint32_t n = p->aliases.count;
	if (!p->strings.count || s[0] || s[p->strings.count - 1] || !n || a[0] || a[n - 1])
		return 0;
	for (uint32_t i = 0; i < n; i++)
		if (a[i] >= p->strings.count)
			return 0;
	return 1;
}

/* Counters are in the order of their functions: next is the least that this one may have. */
static int good_function(const struct dp_plan_file *p, const struct dp_function *f, uint64_t *next)
{
	if (f->object || f->name >= p->strings.count || f->aliases >= p->aliases.count)
		return 0;
	if (!dp_is_counted(f))
		return f->counter == DP_NO_COUNTER;
	if (f->counter < *next || f->counter >= p->counters || (uint64_t)f->stub + f->stub_size > p->cold)
		return 0;
	*next = f->counter + 1ull;
	return 1;
}

static int good_ledger(const struct dp_plan_file *p)
{
	const struct dp_function *f = dp_part(p, &p->functions);
	if (p->counters > p->functions.count || !good_strings(p))
		return 0;
	uint64_t next = 0;
	for (uint32_t i = 0; i < p->functions.count; i++)
		if (!good_function(p, &f[i], &next))
			return 0;
	return 1;
}

/* ---- blocks ------------------------------------------------------------- */

static int is_one(uint32_t n, uint32_t count, uint32_t none) { return n < count || n == none; }

static uint64_t words_of_slots(const struct dp_plan_file *p) { return (uint64_t)p->sets * DP_SET_WORDS; }

/* Notes are in front of the slots. */
static int good_callee(const struct dp_plan_file *p, const struct dp_block *b)
{
	if (b->flags & DP_BLOCK_NOTE)
		return p->sets && (uint64_t)b->callee + DP_NT_WORDS <= p->of_blocks - words_of_slots(p);
	return b->callee <= p->functions.count;
}

static int good_block(const struct dp_plan_file *p, const struct dp_block *b)
{
	return b->function < p->functions.count && is_one(b->counter, p->of_blocks, DP_NO_COUNTER) && is_one(b->after, p->blocks.count, DP_NO_BLOCK) &&
	       is_one(b->loop, p->loops.count, DP_NO_LOOP) && good_callee(p, b);
}

static int good_way(const struct dp_plan_file *p, const struct dp_way *w)
{
	return is_one(w->from, p->blocks.count, DP_NO_BLOCK) && is_one(w->to, p->blocks.count, DP_NO_BLOCK) && is_one(w->counter, p->of_blocks, DP_NO_COUNTER);
}

/* Trips, too. */
static int good_loop(const struct dp_plan_file *p, const struct dp_loop *l)
{
	return l->header < p->blocks.count && is_one(l->parent, p->loops.count, DP_NO_LOOP) &&
	       (!l->trips || (uint64_t)l->trips + DP_TR_WORDS <= p->of_blocks - words_of_slots(p));
}

/* What blocks, ways and loops refer to is there. */
static int good_flow(const struct dp_plan_file *p)
{
	const struct dp_block *blocks = dp_part(p, &p->blocks);
	const struct dp_way *ways = dp_part(p, &p->ways);
	const struct dp_loop *loops = dp_part(p, &p->loops);
	uint64_t most = (uint64_t)p->blocks.count + p->ways.count + p->sites.count + words_of_slots(p);
	int ok = words_of_slots(p) <= p->of_blocks && !(p->sets & (p->sets - 1));
	for (uint32_t i = 0; i < p->blocks.count && ok; i++) {
		ok = good_block(p, &blocks[i]);
		most += blocks[i].flags & DP_BLOCK_NOTE ? DP_NT_WORDS : 0;
	}
	for (uint32_t i = 0; i < p->loops.count && ok; i++) {
		ok = good_loop(p, &loops[i]);
		most += loops[i].trips ? DP_TR_WORDS : 0;
	}
	ok &= p->of_blocks <= most;
	for (uint32_t i = 0; i < p->ways.count && ok; i++)
		ok = good_way(p, &ways[i]);
	return ok;
}

static int good_site(const struct dp_plan_file *p, const struct dp_site *s)
{
	if (s->caller >= p->functions.count || s->callee >= p->functions.count)
		return 0;
	return s->counter == DP_NO_COUNTER || (s->counter < p->of_blocks && (uint64_t)s->stub + s->count <= p->cold);
}

/* What sites refer to is there. Their stubs are in front of the cold blocks. */
static int good_sites(const struct dp_plan_file *p)
{
	const struct dp_site *s = dp_part(p, &p->sites);
	for (uint32_t i = 0; i < p->sites.count; i++)
		if (!good_site(p, &s[i]))
			return 0;
	return 1;
}

int dp_plan_is_sound(const struct dp_plan_file *p, uint64_t size)
{
	return is_whole(p, size) && good_header(p) && good_texts(p) && good_fixups(p) && good_records(p) && good_islands(p) && good_ledger(p) && good_flow(p) && good_sites(p);
}
