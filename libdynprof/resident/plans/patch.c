/* See patch.h.
 *
 * A text of many changes is gone through once, some pages at a time, so that what the kernel
 * has just copied is still in the CPU's cache:
 *  1. Pages are fetched.
 *  2. The patches that begin on them are made.
 *  3. The calls that end on them are led: no patch that may be in their way is still to
 *     come. Whether their groups are refused later is not known yet.
 *  4. Last, the calls that go by slots of the PLT: whom these lead to is told by the patch
 *     there. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>

#include "base/filters.h"
#include "base/own.h"
#include "base/pages.h"
#include "base/stub.h"
#include "plans/patch.h"
#include "texts/slots.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static uint64_t page_of(uint64_t at) { return at & ~(uint64_t)(DP_PAGE_SIZE - 1); }

struct open {
	const struct dp_undo_text *t;
	struct dp_refused *r;
	int direct; /* the text is writable */
	long mem;   /* /proc/self/mem, which writes to it all the same; or what failed */
};

/* Never writable without executable: were there another thread, it could be running
 * there. It fails where pages may not be both (PR_SET_MDWE, SELinux). */
static struct open open_pages(const struct dp_undo_text *t, uint64_t at, uint64_t size, struct dp_refused *r)
{
	struct open o = {t, r, raw(SYS_mprotect, at, size, PROT_READ | PROT_WRITE | PROT_EXEC) == 0, -1};
	if (!o.direct)
		o.mem = dp_open_own("mem", O_RDWR);
	return o;
}

static struct open open_text(const struct dp_undo_text *t, struct dp_refused *r) { return open_pages(t, t->start, t->size, r); }

/* The text stays writable: each time it becomes so costs a fault a page. */
static void close_text(const struct open *o)
{
	if (!failed(o->mem))
		raw(SYS_close, o->mem);
}

static int put(const struct open *o, uint64_t to, const void *bytes, uint64_t n)
{
	if (!o->direct)
		return !failed(o->mem) && raw(SYS_pwrite64, o->mem, bytes, n, to) == (long)n;
	volatile uint8_t *at = (volatile uint8_t *)to;
	for (uint64_t i = 0; i < n; i++)
		at[i] = ((const uint8_t *)bytes)[i];
	return 1;
}

/* What a patch overwrites, and what with, as words: their lowest bytes. */
static uint64_t old_of(const struct dp_overwritten *p)
{
	uint64_t word; /* old, and two bytes behind it */
	_Static_assert(offsetof(struct dp_overwritten, old) + sizeof word <= sizeof *p, "all of the word is the patch's");
	__builtin_memcpy(&word, p->old, sizeof word);
	return word;
}

static uint64_t new_of(const struct dp_overwritten *p)
{
	enum { FRONT = 2 };
	uint64_t word; /* two bytes in front, and new */
	_Static_assert(offsetof(struct dp_overwritten, new) + sizeof p->new == sizeof *p && sizeof p->new + FRONT == sizeof word, "it ends with the patch");
	__builtin_memcpy(&word, (const uint8_t *)p + sizeof *p - sizeof word, sizeof word);
	return word >> 8 * FRONT;
}

/* The lowest n bytes of from that stand in the text become those of to. Returns 0 if others
 * stand there, or it cannot be written to. As a word: loops over so few bytes, now five and now
 * six, take several times as long, as a CPU cannot guess where they end. Who writes is alone there,
 * or the others are stopped. */
static int replace(const struct open *o, uint64_t at, uint64_t from, uint64_t to, uint32_t n)
{
	uint64_t mask = ~0ull >> (64 - 8 * n), word;
	if (!o->direct || at % DP_PAGE_SIZE > DP_PAGE_SIZE - sizeof word)
		return same_bytes((const void *)at, &from, n) && put(o, at, &to, n);
	__builtin_memcpy(&word, (const void *)at, sizeof word);
	if ((word ^ from) & mask)
		return 0;
	word = (word & ~mask) | (to & mask);
	__builtin_memcpy((void *)at, &word, sizeof word);
	return 1;
}

/* Where the pages end that have changes, from the one on which change i begins, if not too many. */
static uint64_t pages_end(const struct dp_undo_text *t, uint32_t i, uint64_t from)
{
	enum { MOST = 64 * DP_PAGE_SIZE };
	uint64_t end = from;
	for (; i < t->count && dp_change_at(t, i) < end + DP_PAGE_SIZE && end - from < MOST; i++)
		end = page_of(dp_change_at(t, i)) + DP_PAGE_SIZE;
	return end;
}

/* These pages become this process's own: at once, which takes less than a fault to read each
 * and one to write to it. A kernel before 5.14 does not know how. Returns where they
 * end, as an offset. */
static uint64_t fetch(const struct dp_undo_text *t, uint32_t i)
{
	uint64_t from = page_of(dp_change_at(t, i)), end = pages_end(t, i, from);
	raw(SYS_madvise, from, end - from, MADV_POPULATE_WRITE);
	return end - t->start;
}

/* These pages are there, if the kernel says so of all at once: else each has to be asked for. */
static void look_ahead(struct dp_page *p, const struct dp_undo_text *t, uint32_t i)
{
	uint64_t from = page_of(dp_change_at(t, i)), end;
	if (from < p->behind)
		return;
	end = pages_end(t, i, from);
	if (ask(SYS_madvise, from, end - from, MADV_POPULATE_READ) == 0)
		*p = (struct dp_page){from, end, 1};
}

static void make_patch(const struct open *o, uint32_t i)
{
	const struct dp_overwritten *p = dp_overwritten_of(o->t, i);
	if (!replace(o, dp_change_at(o->t, i), old_of(p), new_of(p), p->len))
		dp_refuse(o->r, dp_group(o->t, p->group));
}

/* Leads the call whose displacement is change i, if it still is what it was. */
static void lead_call(const struct open *o, uint32_t i)
{
	const struct dp_led *led = dp_led_of(o->t, i);
	uint64_t at = dp_change_at(o->t, i);
	uint32_t offset = (uint32_t)(at - o->t->start), old = dp_call_old(led, offset), new = dp_call_new(led, offset);
	uint8_t op = *(const uint8_t *)(at - 1);
	if ((op == DP_OP_CALL || op == DP_OP_JMP) && !dp_is_refused(o->r, dp_group(o->t, led->group)))
		replace(o, at, old, new, sizeof new);
}

/* Makes the patches from i on that begin in front of an offset. Returns the next change. */
static uint32_t make_patches(const struct open *o, uint32_t i, uint64_t end)
{
	for (; i < o->t->count && dp_change_at(o->t, i) - o->t->start < end; i++)
		if (!dp_is_call(o->t, i))
			make_patch(o, i);
	return i;
}

/* Leads the calls from i on that end in front of it. */
static uint32_t lead_calls(const struct open *o, uint32_t i, uint64_t end)
{
	for (; i < o->t->count && dp_change_at(o->t, i) - o->t->start + sizeof(uint32_t) <= end; i++)
		if (dp_is_call(o->t, i) && !dp_is_by_slot(o->t, i))
			lead_call(o, i);
	return i;
}

/* The slot by which change i goes, if that is a call which can be led past it; else 0. */
static uint64_t slot_of(const struct dp_undo_text *t, uint32_t i)
{
	return dp_is_by_slot(t, i) ? (uint64_t)dp_slot_to(t, dp_led_of(t, i)) : 0;
}

/* Leads the calls that go by slots, if it will be seen that these are about to change. */
static void lead_past_slots(const struct open *o)
{
	uint64_t low = ~0ull, high = 0;
	for (uint32_t i = 0; i < o->t->count; i++) {
		uint64_t at = slot_of(o->t, i);
		low = at && at < low ? at : low;
		high = at > high ? at : high;
	}
	if (!high || !dp_watch_slots(o->t, low, high + sizeof(uint64_t)))
		return;
	for (uint32_t i = 0; i < o->t->count; i++)
		if (slot_of(o->t, i))
			lead_call(o, i);
}

void dp_patch_text(const struct dp_undo_text *t, struct dp_refused *r)
{
	struct open o = open_text(t, r);
	uint32_t made = 0, led = 0;
	while (made < t->count) {
		uint64_t end = o.direct ? fetch(t, made) : t->size;
		made = make_patches(&o, made, end);
		if (o.direct)
			led = lead_calls(&o, led, made < t->count ? end : t->size);
	}
	if (o.direct)
		lead_past_slots(&o);
	close_text(&o);
}

static void unlead_call(const struct open *o, uint32_t i)
{
	const struct dp_led *led = dp_led_of(o->t, i);
	uint64_t at = dp_change_at(o->t, i);
	uint32_t offset = (uint32_t)(at - o->t->start), old = dp_call_old(led, offset), new = dp_call_new(led, offset);
	if (dp_is_refused(o->r, dp_group(o->t, led->group)))
		replace(o, at, new, old, sizeof old);
}

static void unmake_patch(const struct open *o, uint32_t i)
{
	const struct dp_overwritten *p = dp_overwritten_of(o->t, i);
	uint32_t group = dp_group(o->t, p->group);
	if (dp_is_refused(o->r, group) && !replace(o, dp_change_at(o->t, i), new_of(p), old_of(p), p->len))
		dp_refuse(o->r, group);
}

static void unmake(const struct open *o, uint32_t i)
{
	if (dp_is_call(o->t, i))
		unlead_call(o, i);
	else
		unmake_patch(o, i);
}

void dp_unpatch_text(const struct dp_undo_text *t, struct dp_refused *r)
{
	struct open o = open_text(t, r);
	for (uint32_t i = 0; i < t->count; i++)
		unmake(&o, i);
	close_text(&o);
}

static uint32_t length_of(const struct dp_undo_text *t, uint32_t i)
{
	return dp_is_call(t, i) ? (uint32_t)sizeof(uint32_t) : dp_overwritten_of(t, i)->len;
}

/* dp_is_made, where many are asked for. */
static int is_made(struct dp_page *p, const struct dp_undo_text *t, uint32_t i)
{
	uint64_t at = dp_change_at(t, i);
	uint32_t len = length_of(t, i), to;
	if (!dp_is_there(p, at) || !dp_is_there(p, at + len - 1))
		return 0;
	if (!dp_is_call(t, i))
		return same_bytes((const void *)at, dp_overwritten_of(t, i)->new, len);
	to = dp_call_new(dp_led_of(t, i), (uint32_t)(at - t->start));
	return same_bytes((const void *)at, &to, len);
}

/* Whether a text is there yet: of what is as long as a displacement something is as we left it.
 * What is shorter stands in other memory by chance. */
static int is_ours(struct dp_page *p, const struct dp_undo_text *t)
{
	int any = 0;
	for (uint32_t i = 0; i < t->count; i++) {
		int is_long = length_of(t, i) >= sizeof(uint32_t);
		if (is_long && is_made(p, t, i))
			return 1;
		any |= is_long;
	}
	return !any;
}

/* Takes back changes first to last, which begin on [low, high), but for those that are not
 * made. */
static void restore_pages(struct dp_page *p, const struct dp_undo_text *t, uint32_t first, uint32_t last, uint64_t low, uint64_t high)
{
	struct dp_refused all = {.all = 1};
	struct open o = open_pages(t, low, high - low, &all);
	for (uint32_t i = first; i <= last; i++)
		if (dp_change_at(t, i) + DP_MOST_CHANGED <= high || is_made(p, t, i))
			unmake(&o, i);
	close_text(&o);
	raw(SYS_mprotect, low, high - low, t->prot);
}

/* Looks at the changes from i on that begin on one page. Returns the next one; *end is where
 * the pages end on which one that is made stands, 0: none is. */
static uint32_t look_at_page(struct dp_page *p, const struct dp_undo_text *t, uint32_t i, uint64_t *end)
{
	uint64_t behind = page_of(dp_change_at(t, i)) + DP_PAGE_SIZE;
	look_ahead(p, t, i);
	uint32_t next = dp_first_near(t, behind + t->longest); /* the first that does not begin in front */
	for (*end = 0; i < next && !*end; i++)
		*end = is_made(p, t, i) ? behind : 0;
	for (i = next; i > 0 && dp_change_at(t, i - 1) + DP_MOST_CHANGED > behind; i--) /* these may reach behind it */
		if (dp_change_at(t, i - 1) + length_of(t, i - 1) > behind && is_made(p, t, i - 1))
			*end = behind + DP_PAGE_SIZE;
	return next;
}

void dp_restore_text(const struct dp_undo_text *t)
{
	struct dp_page page = DP_NO_PAGE;
	uint64_t low = 0, high = 0, end; /* a run of pages on each of which is something of ours */
	uint32_t first = 0, last = 0, next;
	if (!is_ours(&page, t))
		return;
	for (uint32_t i = 0; i < t->count; i = next) {
		uint64_t from = page_of(dp_change_at(t, i));
		next = look_at_page(&page, t, i, &end);
		if (!end)
			continue;
		if (from > high) {
			if (high)
				restore_pages(&page, t, first, last, low, high);
			first = i;
			low = from;
		}
		last = next - 1;
		high = end;
	}
	if (high)
		restore_pages(&page, t, first, last, low, high);
}
