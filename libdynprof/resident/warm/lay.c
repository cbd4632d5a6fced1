/* What the plans say, into the reserve and the control block, for this process
 * (patcher/cached.go, origins.go, undos.go):
 *
 *	arena of the first object | of the second ... | origins, texts, whose lists stay on the pages of the plans
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/mapped.h"
#include "base/pages.h"
#include "base/stub.h"
#include "stubs/arenas.h"
#include "table/heat.h"
#include "texts/undos.h"
#include "warm/place.h"
#include "warm/warm.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static uint64_t aligned(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

/* Takes size bytes of the reserve for a place that is taken; 0: there are none, or there is
 * no address for them. */
static struct dp_arena *new_arena(struct dp_warm *w, uint64_t at, uint64_t size)
{
	struct dp_ctl *ctl = w->ctl;
	if (!at || size > ctl->reserve_size - w->used || ctl->arenas_count == ctl->arenas_cap)
		return 0;
	struct dp_arena *a = &ctl->arenas[ctl->arenas_count++];
	*a = (struct dp_arena){.at = at, .offset = w->used, .size = size, .held = 1};
	raw(SYS_madvise, w->reserve + w->used, size, MADV_POPULATE_WRITE); /* all at once takes half the time; a kernel before 5.14 does not know how */
	w->used += size;
	return a;
}

/* ---- code --------------------------------------------------------------- */

static uint64_t entry_of(const struct dp_ctl *ctl, uint32_t kind)
{
	switch (kind) {
	case DP_FIX_SLOW:
		return ctl->cold_entry;
	case DP_FIX_KEEPER:
		return ctl->keep_entry;
	case DP_FIX_SITE:
		return ctl->site_entry;
	case DP_FIX_RECORD:
		return ctl->record_entry;
	case DP_FIX_TRANSFER:
		return ctl->transfer_entry;
	default:
		return ctl->changed_entry;
	}
}

/* Puts in what depends on the process. */
static void fix(const struct dp_warm *w, const struct dp_planned *o, uint8_t *code)
{
	const struct dp_plan_fixup *f = dp_part(o->plan, &o->plan->fixups), *end = f + o->plan->fixups.count;
	for (; f < end; f++) {
		__attribute__((may_alias)) uint32_t *half = (void *)(code + f->at);
		__attribute__((may_alias)) uint64_t *word = (void *)(code + f->at);
		if (f->kind == DP_FIX_COUNTER)
			*half += 8 * o->counters;
		else if (f->kind == DP_FIX_INDEX)
			*half += o->counters;
		else if (f->kind == DP_FIX_BLOCK)
			*half += 8 * o->block_counters;
		else if (f->kind == DP_FIX_CODE)
			*half += o->codes;
		else if (f->kind == DP_FIX_RETURN)
			*word += dp_bias(o);
		else
			*word = entry_of(w->ctl, f->kind);
	}
}

static int lay_code(struct dp_warm *w, struct dp_planned *o)
{
	const struct dp_plan_file *p = o->plan;
	uint64_t at = p->arena + dp_bias(o);
	if (!p->arena_size)
		return 1;
	struct dp_arena *a = new_arena(w, at, p->arena_size);
	if (!a)
		return 0;
	a->cold = p->cold;
	a->keeps = p->keeps;
	a->traps = at + aligned(p->keeps, sizeof(struct dp_trap));
	a->view = at + a->size;
	o->offset = a->offset;
	dp_copy_bytes(w->reserve + a->offset, dp_part(p, &p->stubs), a->size);
	fix(w, o, w->reserve + a->offset);
	return 1;
}

/* ---- origins ------------------------------------------------------------ */

/* The list of arenas in front, by which debuggers find them (stubgen/emit/arenalist.go). */
struct arena_list {
	uint8_t magic[16];
	uint64_t count;
	struct { uint64_t at, size, cold, records, lengths, count, lengths_size; } arenas[];
};

enum { ORIGINS_ALIGNED = sizeof(struct dp_origin) };

/* The parts of an object's origins. */
static uint64_t origins_size(const struct dp_plan_file *p)
{
	return aligned(dp_part_size(&p->records), ORIGINS_ALIGNED) + aligned(dp_part_size(&p->lengths), ORIGINS_ALIGNED) +
	       aligned(dp_part_size(&p->by_text), ORIGINS_ALIGNED) + aligned(dp_part_size(&p->islands), ORIGINS_ALIGNED);
}

/* Where what is put down next goes: in our pages, and in the program. */
struct place {
	uint8_t *here;
	uint64_t there;
};

static uint64_t put(struct place *to, const void *bytes, uint64_t n, uint64_t align)
{
	uint64_t there = to->there, next = aligned(n, align);
	dp_copy_bytes(to->here, bytes, n);
	to->here += next;
	to->there += next;
	return there;
}

static uint64_t put_origins(struct place *to, const struct dp_plan_file *p, const struct dp_plan_part *s)
{
	return put(to, dp_part(p, s), dp_part_size(s), ORIGINS_ALIGNED);
}

static void lay_origins_of(const struct dp_planned *o, struct place *to, struct dp_arena *a)
{
	const struct dp_plan_file *p = o->plan;
	a->origins = put_origins(to, p, &p->records);
	a->lengths = put_origins(to, p, &p->lengths);
	a->by_text = put_origins(to, p, &p->by_text);
	a->origins_count = p->records.count;
	struct dp_island *islands = (struct dp_island *)to->here;
	a->islands = put_origins(to, p, &p->islands);
	a->islands_count = p->islands.count;
	for (uint32_t i = 0; i < p->islands.count; i++) {
		islands[i].at += dp_bias(o);
		islands[i].from += dp_bias(o);
	}
}

static uint64_t list_size(const struct dp_warm *w)
{
	return aligned(sizeof(struct arena_list) + w->ctl->arenas_count * sizeof((struct arena_list *)0)->arenas[0], ORIGINS_ALIGNED);
}

/* Of the arenas that there are, which have code. */
static uint64_t all_origins(const struct dp_warm *w)
{
	uint64_t size = list_size(w);
	for (uint32_t i = 0; i < w->count; i++)
		if (w->objects[i].plan->arena_size)
			size += origins_size(w->objects[i].plan);
	return size;
}

static void lay_origins(const struct dp_warm *w, struct place *to, uint64_t head, uint32_t arenas)
{
	struct arena_list *list = (struct arena_list *)to->here;
	uint32_t next = 0;
	dp_copy_bytes(list->magic, "dynprof arenas\0\2", sizeof list->magic);
	list->count = arenas;
	*to = (struct place){to->here + head, to->there + head};
	for (uint32_t i = 0; i < w->count; i++) {
		const struct dp_planned *o = &w->objects[i];
		if (!o->plan->arena_size)
			continue;
		struct dp_arena *a = &w->ctl->arenas[next];
		lay_origins_of(o, to, a);
		list->arenas[next].at = a->at;
		list->arenas[next].size = a->size;
		list->arenas[next].cold = a->at + a->cold;
		list->arenas[next].records = a->origins;
		list->arenas[next].lengths = a->lengths;
		list->arenas[next].count = a->origins_count;
		list->arenas[next++].lengths_size = o->plan->lengths.count;
	}
}

/* ---- changes ------------------------------------------------------------ */

enum { CHANGES_ALIGNED = 8 };

/* The changes of one text, in its object's plan. */
struct changes {
	const struct dp_listed *listed;
	const struct dp_overwritten *patches;
	const struct dp_led *leds;
};

/* How far the longest of the changes reaches. */
static uint64_t longest(const struct dp_plan_text *t, const struct changes *c)
{
	uint64_t n = t->leds ? sizeof(uint32_t) : 0;
	for (uint32_t i = 0; i < t->patches; i++)
		if (dp_span(c->patches[i].moved) > n)
			n = dp_span(c->patches[i].moved);
	return n;
}

static void widen(uint64_t *low, uint64_t *high, const struct dp_plan_file *p, const struct dp_plan_part *s)
{
	uint64_t at = (uint64_t)dp_part(p, s), end = at + dp_part_size(s);
	*low = at < *low ? at : *low;
	*high = end > *high ? end : *high;
}

void dp_find_lists(const struct dp_planned *o, uint64_t *low, uint64_t *high)
{
	const struct dp_plan_file *p = o->plan;
	*low = p->texts.count ? ~0ull : 0;
	*high = 0;
	if (!p->texts.count)
		return;
	widen(low, high, p, &p->listed);
	widen(low, high, p, &p->patches);
	widen(low, high, p, &p->leds);
	*low &= ~(uint64_t)(DP_PAGE_SIZE - 1);
	*high = pages(*high);
}

/* The lists stay where they are, on pages of the plan. */
static struct dp_undo_text lay_text(const struct dp_planned *o, const struct dp_plan_text *t, struct place *to, const struct changes *c)
{
	struct dp_undo_text u = {
		.start = t->start + dp_bias(o), .size = t->size, .offset = t->offset, .prot = t->prot, .count = t->listed, .base = o->functions,
		.functions = o->functions, .functions_end = o->functions + o->plan->functions.count, .longest = longest(t, c),
		.list = (uint64_t)c->listed, .overwritten = (uint64_t)c->patches, .leds = (uint64_t)c->leds,
	};
	u.file = put(to, o->path, text_len(o->path) + 1, CHANGES_ALIGNED);
	dp_find_lists(o, &u.kept, &u.kept_end);
	return u;
}

/* Among those of lower addresses. */
static void insert(struct dp_undo_text *texts, uint64_t n, const struct dp_undo_text *u)
{
	for (; n > 0 && texts[n - 1].start > u->start; n--)
		texts[n] = texts[n - 1];
	texts[n] = *u;
}

static int lay_texts_of(struct dp_warm *w, const struct dp_planned *o, uint64_t arena, struct dp_undo_text *texts, struct place *to)
{
	const struct dp_plan_file *p = o->plan;
	const struct dp_plan_text *t = dp_part(p, &p->texts);
	struct changes c = {dp_part(p, &p->listed), dp_part(p, &p->patches), dp_part(p, &p->leds)};
	for (uint32_t i = 0; i < p->texts.count; i++, t++) {
		if (w->ctl->texts_count == w->ctl->texts_cap)
			return 0;
		struct dp_undo_text u = lay_text(o, t, to, &c);
		struct dp_text *x = &w->ctl->texts[w->ctl->texts_count++];
		*x = (struct dp_text){.start = u.start, .size = u.size, .arena = arena};
		if (t == dp_copied_text(p)) {
			x->copy = o->copy;
			x->beside[0] = o->beside[0];
			x->beside[1] = o->beside[1];
		}
		insert(texts, w->ctl->undos_count++, &u);
		c = (struct changes){c.listed + t->listed, c.patches + t->patches, c.leds + t->leds};
	}
	return 1;
}

static uint64_t all_changes(const struct dp_warm *w, uint64_t *texts)
{
	uint64_t size = 0;
	*texts = 0;
	for (uint32_t i = 0; i < w->count; i++) {
		uint32_t n = w->objects[i].plan->texts.count;
		*texts += n;
		size += n * (sizeof(struct dp_undo_text) + aligned(text_len(w->objects[i].path) + 1, CHANGES_ALIGNED));
	}
	return size;
}

static int lay_changes(struct dp_warm *w, const struct place *at, uint64_t count)
{
	struct dp_undo_text *texts = (struct dp_undo_text *)at->here;
	struct place to = {(uint8_t *)&texts[count], at->there + count * sizeof *texts};
	uint64_t arena = 0;
	for (uint32_t i = 0; i < w->count; i++) {
		if (!lay_texts_of(w, &w->objects[i], arena, texts, &to))
			return 0;
		arena += w->objects[i].plan->arena_size != 0;
	}
	w->ctl->undos = at->there;
	return 1;
}

/* What stands beside the code. */
static int lay_data(struct dp_warm *w)
{
	uint32_t arenas = w->ctl->arenas_count;
	uint64_t texts, head = list_size(w), size = pages(all_origins(w) + all_changes(w, &texts));
	uint64_t at = texts ? dp_take_room(w, size) : 0;
	const struct dp_arena *a = new_arena(w, at, size);
	if (!a) {
		if (at)
			raw(SYS_munmap, at, size);
		return 0;
	}
	struct place to = {w->reserve + a->offset, a->at};
	lay_origins(w, &to, head, arenas);
	return lay_changes(w, &to, texts);
}

/* ---- all ---------------------------------------------------------------- */

/* The pages of the reserve once more, writable. */
static int open_reserve(struct dp_warm *w)
{
	uint64_t size = w->ctl->reserve_size;
	long at = raw(SYS_mremap, w->ctl->reserve, 0, size, MREMAP_MAYMOVE); /* it is made before arenas are, and after their places are tried */
	if (failed(at))
		return 0;
	w->reserve = (uint8_t *)at;
	return raw(SYS_mprotect, at, size, PROT_READ | PROT_WRITE) == 0;
}

/* The numbers of its instructions (patcher/codes.go). */
static void number_codes(struct dp_warm *w, struct dp_planned *o)
{
	uint64_t n = o->plan->high - o->plan->low;
	o->codes = DP_MOST_CODES;
	o->told_codes = 0;
	if (o->files->start == (o->loaded->low & ~(uint64_t)(DP_PAGE_SIZE - 1)) && w->codes + n < DP_MOST_CODES) {
		o->codes = DP_FIRST_CODE + (uint32_t)w->codes;
		o->told_codes = (uint32_t)n;
		w->codes += n;
	}
}

static void number(struct dp_warm *w)
{
	for (uint32_t i = 0; i < w->count; i++) {
		struct dp_planned *o = &w->objects[i];
		o->counters = w->counters;
		o->functions = w->functions;
		w->counters += o->plan->counters;
		w->functions += o->plan->functions.count;
	}
	for (uint32_t i = 0; i < w->count; i++) {
		w->objects[i].block_counters = w->counters;
		w->counters += w->objects[i].plan->of_blocks;
		if (dp_heat_tells(w->ctl->heat))
			number_codes(w, &w->objects[i]);
	}
}

int dp_lay_plans(struct dp_warm *w)
{
	number(w);
	if (!open_reserve(w))
		return 0;
	for (uint32_t i = 0; i < w->count; i++)
		if (!lay_code(w, &w->objects[i]))
			return 0;
	return w->ctl->arenas_count && lay_data(w);
}
