/* Arenas are found by address in a tree of pages: four levels of 512 slots each,
 * as the CPU has them for 48 bits. A slot of the last level is that of a page and
 * holds the arena that the page belongs to, or whose stubs the text on it leads
 * to. So a lookup is four loads, however many arenas there are.
 *
 *	address   47..39   38..30   29..21   20..12   11..0
 *	          root  -> node  -> node  -> leaf  -> struct dp_known
 *
 * What a reader sees while arenas become known:
 *  1. Nodes are made for all their pages, which is all that may fail: empty slots
 *     are as good as none.
 *  2. The arena's entry is written, behind those that are counted; then the count.
 *  3. The slots are stored, each in one piece, behind the entry. Where another
 *     object has lain the older arena's are written over.
 * Nothing is ever moved: whoever has read a pointer may keep it as long as he is counted
 * as a reader.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "base/filters.h"
#include "base/lock.h"
#include "base/pages.h"
#include "base/pieces.h"
#include "base/state.h"
#include "stubs/arenas.h"
#include "stubs/redirect.h"

enum { SLOT_BITS = 9, SLOTS = 1 << SLOT_BITS, PAGE_BITS = 12, LEAF_SHIFT = PAGE_BITS, ROOT_SHIFT = PAGE_BITS + 3 * SLOT_BITS };

struct node {
	uint64_t slots[SLOTS];
};
_Static_assert(sizeof(struct node) == DP_PAGE_SIZE, "node");

static struct node root;

/* Entries are in chunks that double: the first needs no memory. */
enum { FIRST_CHUNK = 16, CHUNKS = 24 };
static struct dp_known first_chunk[FIRST_CHUNK];
static struct dp_known *chunks[CHUNKS];
static uint32_t known;
uint32_t dp_readers HIDDEN, dp_arenas_shared HIDDEN;

static struct node *new_node(void)
{
	enum { AT_ONCE = 16 };
	static struct node *room, *end;
	if (room == end) {
		struct node *more = dp_zeros(AT_ONCE * sizeof *more, 1); /* most are used, a fault each */
		if (!more)
			return 0;
		room = more;
		end = more + AT_ONCE;
	}
	return room++;
}

/* The slot of the page that holds an address; 0 if there is none. */
static uint64_t *slot_of(uint64_t at, int make)
{
	struct node *n = &root;
	if (at >> (ROOT_SHIFT + SLOT_BITS))
		return 0;
	for (int shift = ROOT_SHIFT; shift > LEAF_SHIFT; shift -= SLOT_BITS) {
		uint64_t *slot = &n->slots[at >> shift & (SLOTS - 1)];
		struct node *next = (struct node *)__atomic_load_n(slot, __ATOMIC_ACQUIRE);
		if (!next && make && (next = new_node()))
			__atomic_store_n(slot, (uint64_t)next, __ATOMIC_RELEASE);
		if (!next)
			return 0;
		n = next;
	}
	return &n->slots[at >> LEAF_SHIFT & (SLOTS - 1)];
}

static int make_slots(uint64_t low, uint64_t high)
{
	enum { LEAF = SLOTS << PAGE_BITS };
	for (uint64_t at = low & ~(uint64_t)(LEAF - 1); at < high; at += LEAF)
		if (!slot_of(at, 1))
			return 0;
	return 1;
}

static void store_slots(uint64_t low, uint64_t high, const struct dp_known *k)
{
	for (uint64_t at = low & ~(uint64_t)(DP_PAGE_SIZE - 1); at < high; at += DP_PAGE_SIZE) {
		uint64_t *slot = slot_of(at, 0);
		if (slot)
			__atomic_store_n(slot, (uint64_t)k, __ATOMIC_RELEASE);
	}
}

/* ---- entries ---------------------------------------------------------- */

static struct dp_known *entry(uint32_t n, int make)
{
	uint32_t k = 31 - (uint32_t)__builtin_clz(n / FIRST_CHUNK + 1), first = ((1U << k) - 1) * FIRST_CHUNK;
	if (k >= CHUNKS)
		return 0;
	if (!chunks[k] && make)
		chunks[k] = k ? dp_zeros(sizeof(struct dp_known) * FIRST_CHUNK << k, 0) : first_chunk;
	return chunks[k] ? &chunks[k][n - first] : 0;
}

uint32_t dp_arenas_known(void) { return __atomic_load_n(&known, __ATOMIC_ACQUIRE); }
struct dp_known *dp_arena_number(uint32_t n) { return entry(n, 0); }

/* Pages of data are mapped like an arena. */
static int has_code(const struct dp_arena *a) { return a->cold != 0; }

static int make_room(const struct dp_ctl *ctl)
{
	uint32_t n = known;
	for (uint32_t i = 0; i < ctl->arenas_count; i++) {
		const struct dp_arena *a = &ctl->arenas[i];
		if (has_code(a) && (!entry(n++, 1) || !make_slots(a->at, a->at + a->size)))
			return 0;
	}
	for (uint32_t i = 0; i < ctl->texts_count; i++)
		if (!make_slots(ctl->texts[i].start, ctl->texts[i].start + ctl->texts[i].size))
			return 0;
	return 1;
}

static struct dp_known known_of(const struct dp_arena *a, uint32_t number, uint64_t session)
{
	return (struct dp_known){
		a->at, a->at + a->size, a->at + a->cold, a->at + a->keeps,
		(const struct dp_origin *)a->origins, (const uint8_t(*)[2])a->lengths, (const uint32_t *)a->by_text, a->origins_count,
		(const struct dp_island *)a->islands, a->islands_count,
		(const struct dp_trap *)a->traps, a->traps_count,
		a->view, a->view_size, number, 0, 0, DP_FREE, a->at + a->size + a->pointers + a->view_size, session, 0};
}

/* The number of an entry that serves nobody any more, from n on; else that behind the last. */
static uint32_t next_free(uint32_t n)
{
	for (const struct dp_known *k; n < known && (k = entry(n, 0)) && k->gone != DP_FREE; n++)
		;
	return n;
}

/* The arena's code, writable, somewhere else; 0 if that cannot be. */
static uint8_t *map_lasting(const struct dp_known *k)
{
	long view = raw(SYS_mremap, k->at, 0, k->end - k->at, MREMAP_MAYMOVE);
	if (failed(view))
		return 0;
	if (raw(SYS_mprotect, view, k->end - k->at, PROT_READ | PROT_WRITE) == 0)
		return (uint8_t *)view;
	raw(SYS_munmap, view, k->end - k->at);
	return 0;
}

static void store_texts(const struct dp_ctl *ctl, uint32_t arena, const struct dp_known *k)
{
	for (uint32_t i = 0; i < ctl->texts_count; i++) {
		const struct dp_text *t = &ctl->texts[i];
		if (t->arena == arena)
			store_slots(t->start, t->start + t->size, k);
	}
}

const char *dp_know_arenas(const struct dp_ctl *ctl)
{
	int alone = !ctl->keep && dp.table->processes > 1;
	uint32_t n = 0;
	if (!make_room(ctl))
		return "no memory for the list of arenas";
	for (uint32_t i = 0; i < ctl->arenas_count; i++) {
		const struct dp_arena *a = &ctl->arenas[i];
		if (!has_code(a))
			continue;
		n = next_free(n);
		struct dp_known *k = entry(n, 0);
		*k = known_of(a, n, ctl->undos ? ctl->arenas[ctl->arenas_count - 1].at : 0);
		k->alone = (uint8_t)alone;
		k->lasting = dp.translator ? map_lasting(k) : 0;
		__atomic_store_n(&k->gone, DP_THERE, __ATOMIC_RELEASE);
		if (n == known)
			__atomic_store_n(&known, known + 1, __ATOMIC_RELEASE);
		store_slots(k->at, k->end, k);
		store_texts(ctl, i, k);
	}
	return 0;
}

void dp_arena_goes(struct dp_known *k)
{
	__atomic_store_n(&k->gone, DP_REPLACED, __ATOMIC_RELEASE);
	store_slots(k->at, k->end, 0);
}

/* Empties the slots of [low, high) that hold k. */
static void clear_slots(uint64_t low, uint64_t high, const struct dp_known *k)
{
	for (uint64_t at = low & ~(uint64_t)(DP_PAGE_SIZE - 1); at < high; at += DP_PAGE_SIZE) {
		uint64_t *slot = slot_of(at, 0);
		if (slot && *slot == (uint64_t)k)
			__atomic_store_n(slot, 0, __ATOMIC_RELEASE);
	}
}

/* The first arena of a session from number *n on, which becomes that of the next; 0: there is none. */
static struct dp_known *next_of(uint64_t session, uint32_t *n)
{
	while (*n < known) {
		struct dp_known *k = entry((*n)++, 0);
		if (k && k->session == session && k->gone != DP_FREE)
			return k;
	}
	return 0;
}

void dp_arenas_close(uint64_t session, uint64_t low, uint64_t high)
{
	uint32_t n = 0;
	for (struct dp_known *k; (k = next_of(session, &n));) {
		uint8_t there = DP_THERE;
		clear_slots(low, high, k);
		if (__atomic_compare_exchange_n(&k->gone, &there, DP_CLOSED, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			clear_slots(k->at, k->end, k);
	}
}

void dp_arenas_unmap(uint64_t session)
{
	uint32_t n = 0;
	for (struct dp_known *k; (k = next_of(session, &n));) {
		if (k->gone != DP_CLOSED)
			continue;
		dp_disown(k->at);
		ask(SYS_munmap, k->at, k->whole - k->at);
		k->gone = DP_FREE;
	}
}

void dp_arenas_leave(uint64_t session)
{
	uint32_t n = 0;
	for (struct dp_known *k; (k = next_of(session, &n));)
		if (k->gone == DP_CLOSED)
			k->gone = DP_REPLACED;
}

void dp_forget_arenas(void)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		root.slots[i] = 0;
	known = 0;
}

/* ---- lookups ---------------------------------------------------------- */

static const struct dp_known *known_by(uint64_t at)
{
	const uint64_t *slot = slot_of(at, 0);
	return slot ? (const struct dp_known *)__atomic_load_n(slot, __ATOMIC_ACQUIRE) : 0;
}

static int holds(const struct dp_known *k, uint64_t at) { return at - k->at < k->end - k->at; }

const struct dp_known *dp_arena_at(uint64_t at)
{
	const struct dp_known *k = known_by(at);
	return k && holds(k, at) ? k : 0;
}

const struct dp_known *dp_arena_of_text(uint64_t at)
{
	const struct dp_known *k = known_by(at);
	return k && !holds(k, at) ? k : 0;
}

const struct dp_origin *dp_origin_at(const struct dp_known *c, uint64_t at)
{
	uint64_t low = 0, high = c->origins_count;
	while (low < high) {
		uint64_t mid = (low + high) / 2;
		if (c->origins[mid].at <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? &c->origins[low - 1] : 0;
}

long dp_stub_writable(uint64_t at, uint8_t **to)
{
	const struct dp_known *k = dp_arena_at(at);
	if (!k)
		return -ENXIO;
	if (!k->lasting)
		return -EPERM;
	*to = k->lasting + (at - k->at);
	return 0;
}

int dp_cold_number(uint64_t at, uint64_t *number, uint64_t *behind)
{
	const struct dp_known *k = dp_arena_at(at);
	if (!k || at < k->cold)
		return 0;
	*number = (at - k->cold) / DP_COLD_SIZE;
	*behind = k->end;
	return 1;
}
