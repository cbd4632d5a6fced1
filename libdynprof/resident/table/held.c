/* See held.h. All is in memory that hotspots run has made and keeps, so that nothing is lost when the program
 * is killed. There is no lock, and nobody waits: handlers come in between, and threads end.
 *
 *  - A block is one entry of 16 bytes, exchanged at once. Blocks of a page are near each other, from
 *    where a sum of its address leads, by 16 bytes of address an entry; where that is full another sum leads
 *    elsewhere. An entry is at the first place that was not taken; what is given back leaves its place to
 *    others, but not empty, so that those behind it are found.
 *  - Between its being handed out and given back a block's address is nobody else's: so there is no
 *    entry of it but of who puts it there, and nobody but who gives it back takes that away.
 *  - What was given back is put into the ring, at the first place that is free, by exchanging all of it at once,
 *    as records are (regions.c): two bits say how often the ring had been filled. Where it is full
 *    that is counted.
 *  - What came and went between two looks of hotspots run is put there only if not too many were.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/mman.h>

#include "base/kept.h"
#include "base/layout.h"
#include "base/pages.h"
#include "base/pair.h"
#include "table/held.h"

struct caller {
	uint64_t back, blocks, bytes, freed, gone, peak, unheld, spare;
};
_Static_assert(sizeof(struct caller) == DP_CALLER_SIZE && offsetof(struct caller, back) == DP_CALLER_BACK && offsetof(struct caller, blocks) == DP_CALLER_BLOCKS &&
		       offsetof(struct caller, bytes) == DP_CALLER_BYTES && offsetof(struct caller, freed) == DP_CALLER_FREED && offsetof(struct caller, gone) == DP_CALLER_GONE &&
		       offsetof(struct caller, peak) == DP_CALLER_PEAK && offsetof(struct caller, unheld) == DP_CALLER_UNHELD,
	       "callers");

enum {
	LONGEST = 128, /* places that are looked at for one */
	NEAR = 16,     /* of them, from where one sum leads */
	PAGE_BITS = 12, ENTRY_BITS = 4,
	CALLERS = 64, /* likewise, for who asks */
};

enum { EMPTY, LEFT, TAKEN = DP_HELD_TAKEN };
#define MOST_BYTES (1ULL << DP_HELD_LOOK)
#define MOST_LOOKS ((1ULL << DP_HELD_LOOK_BITS) - 1)
#define END (1ULL << (DP_HELD_CALLER + DP_HELD_UNIT))

static uint8_t *area; /* 0: there is none */
static uint8_t *here; /* a page that forks leave empty in the child */

static uint64_t *word(uint64_t at) { return (uint64_t *)(area + at); }
static uint64_t get(uint64_t at) { return __atomic_load_n(word(at), __ATOMIC_ACQUIRE); }
static void count(uint64_t *at, uint64_t n) { __atomic_fetch_add(at, n, __ATOMIC_RELAXED); }

static void grow(uint64_t *least, uint64_t n)
{
	uint64_t is = __atomic_load_n(least, __ATOMIC_RELAXED);
	while (is < n && !__atomic_compare_exchange_n(least, &is, n, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

void dp_held_begin(uint64_t at)
{
	static struct dp_kept kept;
	long page = raw(SYS_mmap, 0, DP_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(page))
		return;
	if (failed(raw(SYS_madvise, page, DP_PAGE_SIZE, MADV_WIPEONFORK))) {
		raw(SYS_munmap, page, DP_PAGE_SIZE);
		return;
	}
	raw(SYS_madvise, page, DP_PAGE_SIZE, MADV_DONTDUMP);
	here = (uint8_t *)page;
	*here = 1;
	dp_note_kept(&kept, here, DP_PAGE_SIZE);
	area = (uint8_t *)at;
}
void dp_held_end(void) { area = 0; }
int dp_held_are(void) { return area != 0; }
int dp_held_here(void) { return area && __atomic_load_n(here, __ATOMIC_RELAXED); }
void dp_held_elsewhere(void) { count(word(DP_AL_CHILDREN), 1); }
void dp_held_unled(void)
{
	if (area)
		count(word(DP_AL_UNLED), 1);
}

/* ---- who asks ------------------------------------------------------------ */

static struct caller *caller(uint64_t i) { return (struct caller *)(area + DP_AL_CALLERS) + i; }
static uint64_t sum_of(uint64_t n, unsigned bits) { return (n * 0x9e3779b97f4a7c15) >> (64 - bits); }

/* 0 is all for whom there is no room. */
static uint64_t caller_of(uint64_t back)
{
	for (uint64_t n = 0, i = sum_of(back, 16); n < CALLERS; n++, i = (i + 1) % DP_AL_CALLER_MAX) {
		uint64_t *at = &caller(i)->back, is = __atomic_load_n(at, __ATOMIC_ACQUIRE);
		if (i && (is == back || (!is && (__atomic_compare_exchange_n(at, &is, back, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) || is == back))))
			return i;
	}
	return 0;
}
_Static_assert(DP_AL_CALLER_MAX == 1 << 16, "callers");

/* ---- blocks -------------------------------------------------------------- */

static unsigned state_of(uint64_t what) { return what >> DP_HELD_STATE & 3; }
static uint64_t unit_of(uint64_t what) { return what & ((1ULL << DP_HELD_CALLER) - 1); }
static struct caller *whose(const struct dp_held *h) { return caller(h->what >> DP_HELD_CALLER & (DP_AL_CALLER_MAX - 1)); }
static uint64_t size_of(const struct dp_held *h) { return h->size & (MOST_BYTES - 1); }
static uint64_t look_of(const struct dp_held *h) { return h->size >> DP_HELD_LOOK; }

static uint64_t look(void)
{
	uint64_t now = get(DP_AL_LOOK);
	return now < MOST_LOOKS ? now : MOST_LOOKS;
}

/* The place that is looked at as number n for a block. */
static struct dp_held *place(uint64_t low, uint64_t n)
{
	enum { GROUP_BITS = 21 - (PAGE_BITS - ENTRY_BITS) };
	uint64_t group = sum_of((low >> PAGE_BITS) + (n / NEAR << 40), GROUP_BITS);
	uint64_t i = (group << (PAGE_BITS - ENTRY_BITS)) + (low >> ENTRY_BITS & ((1 << (PAGE_BITS - ENTRY_BITS)) - 1)) + n % NEAR;
	return (struct dp_held *)(area + DP_AL_SLOTS) + (i & (DP_AL_SLOT_MAX - 1));
}
_Static_assert(DP_AL_SLOT_MAX == 1 << 21, "slots");

static struct dp_held read_held(const struct dp_held *at)
{
	struct dp_held h;
	dp_read_pair(at, &h.what, &h.size);
	return h;
}

static int exchange(struct dp_held *s, struct dp_held was, uint64_t what, uint64_t size) { return dp_exchange_pair(s, was.what, was.size, what, size); }

int dp_held_take(uint64_t low, struct dp_held *was)
{
	uint64_t unit = low >> DP_HELD_UNIT;
	for (uint64_t n = 0, end = get(DP_AL_LONGEST); low && n < end; n++) {
		struct dp_held *s = place(low, n);
		*was = read_held(s);
		if (state_of(was->what) == EMPTY)
			break;
		if (state_of(was->what) == TAKEN && unit_of(was->what) == unit)
			return exchange(s, *was, (uint64_t)LEFT << DP_HELD_STATE, was->size);
	}
	return 0;
}

static int put(const struct dp_held *h)
{
	uint64_t low = unit_of(h->what) << DP_HELD_UNIT;
	for (uint64_t n = 0; n < LONGEST; n++) {
		struct dp_held *s = place(low, n);
		for (struct dp_held is = read_held(s); state_of(is.what) != TAKEN; is = read_held(s)) {
			grow(word(DP_AL_LONGEST), n + 1);
			if (exchange(s, is, h->what, h->size))
				return 1;
		}
	}
	return 0;
}

void dp_held_keep(const struct dp_held *was)
{
	if (!put(was))
		count(&whose(was)->unheld, 1);
}

void dp_held_add(uint64_t low, uint64_t size, uint64_t back)
{
	struct dp_held old, h;
	if (dp_held_take(low, &old)) { /* whoever has asked for it did so for this one */
		count(&whose(&old)->blocks, (uint64_t)-1);
		count(&whose(&old)->bytes, -size_of(&old));
	}
	uint64_t by = caller_of(back);
	struct caller *c = caller(by);
	count(&c->blocks, 1);
	uint64_t bytes = __atomic_add_fetch(&c->bytes, size, __ATOMIC_RELAXED);
	grow(&c->peak, bytes - __atomic_load_n(&c->gone, __ATOMIC_RELAXED));
	h.what = low >> DP_HELD_UNIT | by << DP_HELD_CALLER | (uint64_t)TAKEN << DP_HELD_STATE;
	h.size = size | look() << DP_HELD_LOOK;
	if (low >= END || size >= MOST_BYTES || low & ((1 << DP_HELD_UNIT) - 1) || !put(&h))
		count(&c->unheld, 1);
}

/* ---- the ring ------------------------------------------------------------ */

static struct dp_held *ring_at(uint64_t n) { return (struct dp_held *)(area + DP_AL_RING) + n % DP_AL_RING_MAX; }
static unsigned turn_of(uint64_t n) { return (n / DP_AL_RING_MAX + 1) & 3; }

/* Whether one more may be told of that came since the last look. */
static int is_told(void)
{
	int64_t *left = (int64_t *)word(DP_AL_BRIEF);
	return __atomic_load_n(left, __ATOMIC_RELAXED) > 0 && __atomic_fetch_sub(left, 1, __ATOMIC_RELAXED) > 0;
}

static int put_gone(const struct dp_held *was)
{
	uint64_t tail = get(DP_AL_TAIL), n = get(DP_AL_HEAD);
	for (n = n < tail ? tail : n; n - tail < DP_AL_RING_MAX;) {
		struct dp_held *s = ring_at(n), is = read_held(s);
		unsigned turn = state_of(is.what);
		if (turn == ((turn_of(n) - 1) & 3)) {
			if (!exchange(s, is, (was->what & ((1ULL << DP_HELD_STATE) - 1)) | (uint64_t)turn_of(n) << DP_HELD_STATE, was->size))
				continue;
			__atomic_store_n(word(DP_AL_HEAD), n + 1, __ATOMIC_RELEASE); /* who comes late makes it less: others look on */
			return 1;
		}
		if (turn == turn_of(n)) {
			n++;
			continue;
		}
		tail = get(DP_AL_TAIL); /* the ring has gone round meanwhile */
		n = get(DP_AL_HEAD);
		n = n < tail ? tail : n;
	}
	return 0;
}

void dp_held_gone(const struct dp_held *was)
{
	struct caller *c = whose(was);
	count(&c->freed, 1);
	count(&c->gone, size_of(was));
	if (look_of(was) == look() && !is_told())
		count(word(DP_AL_SHORT), 1);
	else if (!put_gone(was))
		count(word(DP_AL_UNTOLD), 1);
}
