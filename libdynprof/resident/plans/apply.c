/* Applying a plan: arenas and patches. There is one thread. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "base/hooks.h"
#include "base/mapped.h"
#include "base/pages.h"
#include "base/state.h"
#include "plans/apply.h"
#include "plans/patch.h"
#include "plans/refused.h"
#include "rows/chunks.h"
#include "rows/rows.h"
#include "table/view.h"
#include "texts/undos.h"

/* Maps the pages at from, which are shared, at an address that is held as well. */
static int map_again(uint64_t from, uint64_t size, uint64_t to)
{
	return (uint64_t)raw(SYS_mremap, from, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to;
}

/* Maps what follows an arena, at an address that is held: pages of this process's
 * own, with what the planner left for them in the reserve. */
static int map_pointers(const struct dp_ctl *ctl, const struct dp_arena *a)
{
	uint64_t to = a->at + a->size;
	if (failed(raw(SYS_mmap, to, a->pointers, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)))
		return 0;
	const uint64_t *from = (const uint64_t *)(ctl->reserve + a->offset + a->size);
	for (uint64_t i = 0; i < a->pointers / 8; i++)
		((uint64_t *)to)[i] = from[i];
	return 1;
}

static int map_arena(const struct dp_ctl *ctl, const struct dp_arena *a)
{
	return map_again(ctl->reserve + a->offset, a->size, a->at) && (!a->pointers || map_pointers(ctl, a));
}

static const char no_space[] = "no address space for the stubs (ulimit -v?)";

/* An arena, its pointers and its view, one right behind the other. */
static uint64_t room_of(const struct dp_arena *a) { return a->size + a->pointers + a->view_size; }

static void unmap_first(const struct dp_ctl *ctl, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		raw(SYS_munmap, ctl->arenas[i].at, room_of(&ctl->arenas[i]));
}

/* Whether its place is held already: since before the planner was made, since it was tried, or
 * by the heap. */
static int is_held(const struct dp_ctl *ctl, const struct dp_arena *a) { return a->held || a->at - ctl->held < ctl->held_size; }

/* Lets go of what is held for arenas that are not mapped. */
static void unhold(const struct dp_ctl *ctl, uint32_t from)
{
	for (uint32_t i = from; i < ctl->arenas_count; i++)
		if (is_held(ctl, &ctl->arenas[i]))
			raw(SYS_munmap, ctl->arenas[i].at, room_of(&ctl->arenas[i]));
}

/* Maps the reserve's pages where the stubs will run, and holds the room of the
 * views: all, or none. */
const char *dp_map_arenas(const struct dp_ctl *ctl)
{
	for (uint32_t i = 0; i < ctl->arenas_count; i++) {
		const struct dp_arena *a = &ctl->arenas[i];
		int held = is_held(ctl, a) || dp_hold(a->at, room_of(a));
		if (!held || !map_arena(ctl, a)) {
			unmap_first(ctl, i + (uint32_t)held);
			unhold(ctl, i + 1);
			return no_space;
		}
		if (!a->cold) /* no code */
			raw(SYS_mprotect, a->at, a->size, PROT_READ);
		/* perf takes note of new mappings and changed protections, not
		 * of mremap. */
		else if (ctl->announce && raw(SYS_mprotect, a->at, a->size, PROT_READ | PROT_WRITE | PROT_EXEC) == 0)
			raw(SYS_mprotect, a->at, a->size, PROT_READ | PROT_EXEC);
	}
	return 0;
}

void dp_unmap_arenas(const struct dp_ctl *ctl) { unmap_first(ctl, ctl->arenas_count); }

/* Where it fails dp_unmap_arenas unmaps all. */
const char *dp_map_views(const struct dp_ctl *ctl)
{
	for (uint32_t i = 0; i < ctl->arenas_count; i++) {
		const struct dp_arena *a = &ctl->arenas[i];
		if (!a->view_size)
			continue;
		if (!map_again((uint64_t)dp_row_at(0) + a->view_offset, a->view_size, a->view))
			return no_space;
	}
	return 0;
}

static const struct dp_undo_text *texts_of(const struct dp_ctl *ctl) { return (const struct dp_undo_text *)ctl->undos; }

static void refuse_guests_in(const struct dp_undo_text *t, struct dp_refused *r)
{
	for (uint32_t i = 0; i < t->count; i++) {
		if (dp_is_call(t, i))
			continue;
		const struct dp_overwritten *o = dp_overwritten_of(t, i);
		if (o->needs != DP_NO_GROUP && dp_is_refused(r, dp_group(t, o->needs)))
			dp_refuse(r, dp_group(t, o->group));
	}
}

/* A patch that needs a group which is refused is refused with its own; others
 * may need that in turn. */
static void refuse_guests(const struct dp_ctl *ctl, struct dp_refused *r)
{
	uint32_t before;
	do {
		before = r->groups;
		for (uint64_t i = 0; i < ctl->undos_count; i++)
			refuse_guests_in(&texts_of(ctl)[i], r);
	} while (r->groups != before);
}

/* Until then texts stay writable: each time they become so costs a fault a page. */
static void close_texts(const struct dp_ctl *ctl)
{
	for (uint64_t i = 0; i < ctl->undos_count; i++)
		raw(SYS_mprotect, texts_of(ctl)[i].start, texts_of(ctl)[i].size, texts_of(ctl)[i].prot);
}

static struct dp_text *text_of(const struct dp_ctl *ctl, const struct dp_undo_text *t)
{
	for (uint32_t i = 0; i < ctl->texts_count; i++)
		if (ctl->texts[i].start == t->start)
			return &ctl->texts[i];
	return 0;
}

static int is_as_planned(const struct dp_undo_text *t)
{
	for (uint32_t i = 0; i < t->count; i++) {
		if (dp_is_call(t, i))
			continue;
		const struct dp_overwritten *o = dp_overwritten_of(t, i);
		if (!same_bytes((const void *)dp_change_at(t, i), o->old, o->len))
			return 0;
	}
	return 1;
}

static int exchange(struct dp_copy *c)
{
	if (!c->from || (uint64_t)raw(SYS_mremap, c->from, c->size, c->size, MREMAP_MAYMOVE | MREMAP_FIXED, c->to) != c->to)
		return 0;
	c->from = 0;
	return 1;
}

/* All texts of an object, whose groups do not need those of others. */
static int is_whole_as_planned(const struct dp_ctl *ctl, uint64_t arena)
{
	for (uint64_t i = 0; i < ctl->undos_count; i++) {
		const struct dp_text *x = text_of(ctl, &texts_of(ctl)[i]);
		if (x && x->arena == arena && !is_as_planned(&texts_of(ctl)[i]))
			return 0;
	}
	return 1;
}

/* Text that has all its changes takes the place of what has none. */
static void exchange_text(const struct dp_ctl *ctl, struct dp_text *x)
{
	if (!is_whole_as_planned(ctl, x->arena) || !exchange(&x->copy))
		return;
	x->exchanged = 1;
	exchange(&x->beside[0]);
	exchange(&x->beside[1]);
}

static int is_exchanged(const struct dp_ctl *ctl, const struct dp_undo_text *t)
{
	const struct dp_text *x = text_of(ctl, t);
	return x && x->exchanged;
}

static void exchange_all(const struct dp_ctl *ctl, struct dp_refused *r)
{
	for (uint64_t i = 0; i < ctl->undos_count; i++) {
		struct dp_text *x = text_of(ctl, &texts_of(ctl)[i]);
		if (x && x->copy.from && (r->bits || dp_make_refused(r))) /* what follows may not refuse all for want of memory */
			exchange_text(ctl, x);
	}
}

void dp_unmap_copy(struct dp_copy *c)
{
	if (c->from)
		raw(SYS_munmap, c->from, c->size);
	c->from = 0;
}

void dp_drop_copies(const struct dp_ctl *ctl)
{
	for (uint32_t i = 0; i < ctl->texts_count; i++) {
		dp_unmap_copy(&ctl->texts[i].copy);
		dp_unmap_copy(&ctl->texts[i].beside[0]);
		dp_unmap_copy(&ctl->texts[i].beside[1]);
	}
}

static void patch_all(const struct dp_ctl *ctl, struct dp_refused *r)
{
	for (uint64_t i = 0; i < ctl->undos_count; i++)
		if (!is_exchanged(ctl, &texts_of(ctl)[i]))
			dp_patch_text(&texts_of(ctl)[i], r);
}

/* Writes into the table's ledger that the refused groups are not counted. */
static void note_refused(const struct dp_refused *r)
{
	struct dp_header *table = dp_view();
	if (!table)
		return;
	struct dp_function *f = dp_in_table(table, table->functions.offset);
	uint32_t count = table->functions.count;
	for (uint32_t i = 0; i < count; i++, f++)
		if (dp_is_refused(r, i)) {
			f->tactic = DP_REFUSED_TACTIC;
			f->reason = DP_REFUSED_REASON;
		}
}

static void take_back(const struct dp_ctl *ctl, struct dp_refused *r)
{
	refuse_guests(ctl, r);
	r->all |= r->groups == dp.counters - dp.table->blocks_count; /* then the kernel sites go, too */
	for (uint64_t i = 0; i < ctl->undos_count; i++)
		dp_unpatch_text(&texts_of(ctl)[i], r);
	note_refused(r);
	__atomic_fetch_add(&dp.table->patches_refused, r->groups, __ATOMIC_RELAXED);
}

/* Makes all changes that can be made. */
uint32_t dp_apply_patches(const struct dp_ctl *ctl)
{
	struct dp_refused r = {0};
	exchange_all(ctl, &r);
	if (dp_hooks.refuse)
		dp_hooks.refuse(ctl, &r);
	patch_all(ctl, &r);
	if (r.groups || r.signals)
		take_back(ctl, &r);
	close_texts(ctl);
	if (r.bits)
		raw(SYS_munmap, r.bits, r.size);
	return r.groups;
}
