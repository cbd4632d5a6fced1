/* See allocs.h. What blocks there are is a process's own: a child that is forked has copies of
 * them, and frees these when it likes, as its parent does its own. So it is in private memory,
 * which a fork copies, and counts of pages in the shadow, which all share, only grow from the first
 * fork on.
 *
 * There is no lock, since handlers come in between and threads are not in a fork's child. A block
 * is one entry of 16 bytes, exchanged at once. Blocks of up to 2^k bytes, and more than half of
 * that, are found by k and by their address in units of 2^k: who looks for an address looks in two units
 * for each k that there is. An entry is at the first place that was not taken, from where a sum of
 * the two leads; what is given back leaves its place to others, but not empty, so that those
 * behind it are found.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "base/kept.h"
#include "base/pair.h"
#include "base/stub.h"
#include "table/allocs.h"
#include "table/held.h"
#include "table/pages.h"

enum {
	SLOT_BITS = 20,
	LONGEST = 64, /* places that are looked at for one */
	CODES = 256,
	LEAST = 4, /* k of the smallest blocks */
	SITE_BITS = 6, STATE_BIT = DP_REC_ADDRESS_BITS + SITE_BITS,
	SIZE_BITS = 37,
};
#define SLOTS (1ULL << SLOT_BITS)
#define MOST_BYTES (1ULL << 36)

enum state { EMPTY, LEFT, TAKEN };

/* address | site << DP_REC_ADDRESS_BITS | state << STATE_BIT; size | number << SIZE_BITS, which
 * no other has for long. */
struct slot {
	uint64_t what, size;
} __attribute__((aligned(16)));

struct code {
	uint64_t low, size;
	int64_t site;
};

/* What is of this process. */
struct own {
	uint64_t kinds;	  /* bits: each k that there is, or was */
	uint64_t longest; /* the most places that one had to look at */
	uint64_t number;
	uint64_t codes_used, sites_used;
	uint64_t bytes[DP_RG_ASKS], blocks[DP_RG_ASKS];
	struct code codes[CODES];
	struct slot slots[SLOTS];
};

static struct own *own; /* 0: there is none */

_Static_assert(DP_RG_ASKS <= 1 << SITE_BITS, "sites");

static uint64_t *word_of(uint64_t site, uint64_t at) { return dp_region_word(DP_RG_ASKED + site * DP_ASK_SIZE + at); }
static void count(uint64_t site, uint64_t at, uint64_t n) { __atomic_fetch_add(word_of(site, at), n, __ATOMIC_RELAXED); }

static void grow(uint64_t *least, uint64_t n)
{
	uint64_t is = __atomic_load_n(least, __ATOMIC_RELAXED);
	while (is < n && !__atomic_compare_exchange_n(least, &is, n, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

/* ---- sites -------------------------------------------------------------- */

int dp_allocs_are(void) { return own != 0 || dp_held_are(); }

int dp_allocs_begin(void)
{
	static struct dp_kept kept;
	if (own)
		return 1;
	long at = raw(SYS_mmap, 0, sizeof *own, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (failed(at))
		return 0;
	raw(SYS_madvise, at, sizeof *own, MADV_DONTDUMP);
	dp_note_kept(&kept, (const void *)at, sizeof *own);
	__atomic_store_n(&own, (struct own *)at, __ATOMIC_RELEASE);
	return 1;
}

int dp_allocs_site(uint64_t number)
{
	for (uint64_t i = 0; i < own->sites_used; i++)
		if (*word_of(i, DP_ASK_NUMBER) == number)
			return (int)i;
	if (own->sites_used == DP_RG_ASKS)
		return -1;
	__atomic_store_n(word_of(own->sites_used, DP_ASK_NUMBER), number, __ATOMIC_RELEASE);
	return (int)own->sites_used++;
}

int dp_allocs_code(int site, uint64_t low, uint64_t size)
{
	uint64_t n = own->codes_used;
	for (uint64_t i = 0; i < n; i++)
		if (own->codes[i].low == low && own->codes[i].size == size && own->codes[i].site == site)
			return 1;
	if (n == CODES) {
		count((uint64_t)site, DP_ASK_UNLED, 1);
		return 0;
	}
	own->codes[n] = (struct code){low, size, site};
	__atomic_store_n(&own->codes_used, n + 1, __ATOMIC_RELEASE);
	return 1;
}

void dp_allocs_unled(void)
{
	dp_held_unled();
	for (uint64_t i = 0; own && i < own->sites_used; i++)
		count(i, DP_ASK_UNLED, 1);
}

static int64_t site_of(uint64_t back)
{
	for (uint64_t i = 0, n = __atomic_load_n(&own->codes_used, __ATOMIC_ACQUIRE); i < n; i++)
		if (back - 1 - own->codes[i].low < own->codes[i].size)
			return own->codes[i].site;
	return -1;
}

void dp_allocs_copied(void)
{
	if (own)
		__atomic_store_n(dp_region_word(DP_RG_FORKED), 1, __ATOMIC_SEQ_CST);
}

/* ---- blocks -------------------------------------------------------------- */

static unsigned kind_of(uint64_t size) { return size <= 1 << LEAST ? LEAST : 64 - (unsigned)__builtin_clzll(size - 1); }
static uint64_t first_place(unsigned kind, uint64_t unit) { return ((unit << 6 | kind) * 0x9e3779b97f4a7c15) >> (64 - SLOT_BITS); }
static struct slot *place(uint64_t i) { return &own->slots[i & (SLOTS - 1)]; }
static enum state state_of(uint64_t what) { return (enum state)(what >> STATE_BIT); }
static uint64_t address_of(uint64_t what) { return what & ((1ULL << DP_REC_ADDRESS_BITS) - 1); }
static uint64_t whose(uint64_t what) { return what >> DP_REC_ADDRESS_BITS & ((1 << SITE_BITS) - 1); }
static uint64_t size_of(uint64_t size) { return size & ((1ULL << SIZE_BITS) - 1); }

static struct slot read_slot(const struct slot *at)
{
	struct slot s;
	dp_read_pair(at, &s.what, &s.size);
	return s;
}

static int exchange(struct slot *s, const struct slot *was, uint64_t what, uint64_t size) { return dp_exchange_pair(s, was->what, was->size, what, size); }

static uint64_t longest(void) { return __atomic_load_n(&own->longest, __ATOMIC_ACQUIRE); }

static int forked(void) { return dp_region_get(DP_RG_FORKED) != 0; }

/* Takes the block that begins at low away. Returns 0 if there is none. */
static int take_away(uint64_t low, uint64_t *site, uint64_t *size)
{
	if (!dp_pages_have(low))
		return 0;
	for (uint64_t kinds = __atomic_load_n(&own->kinds, __ATOMIC_ACQUIRE); kinds; kinds &= kinds - 1) {
		unsigned kind = (unsigned)__builtin_ctzll(kinds);
		uint64_t i = first_place(kind, low >> kind);
		for (uint64_t n = longest(); n; n--, i++) {
			struct slot s = read_slot(place(i));
			if (state_of(s.what) == EMPTY)
				break;
			if (state_of(s.what) != TAKEN || address_of(s.what) != low)
				continue;
			if (!exchange(place(i), &s, (uint64_t)LEFT << STATE_BIT, s.size))
				return 0; /* another thread has */
			*site = whose(s.what);
			*size = size_of(s.size);
			if (!forked())
				dp_pages_mark(low, low + *size, (uint16_t)-1);
			__atomic_fetch_sub(&own->bytes[*site], *size, __ATOMIC_RELAXED);
			__atomic_fetch_sub(&own->blocks[*site], 1, __ATOMIC_RELAXED);
			count(*site, DP_ASK_FREED, 1);
			return 1;
		}
	}
	return 0;
}

static int put(uint64_t low, uint64_t size, uint64_t site)
{
	unsigned kind = kind_of(size);
	uint64_t i = first_place(kind, low >> kind);
	uint64_t number = __atomic_fetch_add(&own->number, 1, __ATOMIC_RELAXED);
	__atomic_fetch_or(&own->kinds, 1ULL << kind, __ATOMIC_SEQ_CST);
	for (uint64_t n = 1; n <= LONGEST; n++, i++)
		for (struct slot s = read_slot(place(i)); state_of(s.what) != TAKEN; s = read_slot(place(i))) {
			grow(&own->longest, n);
			if (exchange(place(i), &s, low | site << DP_REC_ADDRESS_BITS | (uint64_t)TAKEN << STATE_BIT, size | number << SIZE_BITS))
				return 1;
		}
	return 0;
}

/* There is a block. */
static void add(uint64_t low, uint64_t size, uint64_t site)
{
	uint64_t old_site, old_size;
	count(site, DP_ASK_BLOCKS, 1);
	count(site, DP_ASK_BYTES, size);
	if (!size)
		return;
	take_away(low, &old_site, &old_size); /* it was given back in another way */
	if (size > MOST_BYTES || low + size > 1ULL << DP_REC_ADDRESS_BITS || !put(low, size, site)) {
		count(site, DP_ASK_UNHELD, 1);
		return;
	}
	dp_pages_widen(low, low + size);
	if (forked())
		dp_pages_keep(low, low + size);
	else
		dp_pages_mark(low, low + size, 1);
	grow(word_of(site, DP_ASK_PEAK), __atomic_add_fetch(&own->bytes[site], size, __ATOMIC_RELAXED));
	grow(word_of(site, DP_ASK_MOST), __atomic_add_fetch(&own->blocks[site], 1, __ATOMIC_RELAXED));
}

uint64_t dp_allocs_region(uint64_t low, uint64_t high)
{
	if (!__atomic_load_n(&own, __ATOMIC_ACQUIRE))
		return 0;
	for (uint64_t kinds = __atomic_load_n(&own->kinds, __ATOMIC_ACQUIRE); kinds; kinds &= kinds - 1) {
		unsigned kind = (unsigned)__builtin_ctzll(kinds);
		uint64_t unit = low >> kind, last = (high - 1) >> kind;
		for (unit -= unit > 0; unit <= last; unit++) {
			uint64_t i = first_place(kind, unit);
			for (uint64_t n = longest(); n; n--, i++) {
				struct slot s = read_slot(place(i));
				if (state_of(s.what) == EMPTY)
					break;
				if (state_of(s.what) == TAKEN && address_of(s.what) < high && address_of(s.what) + size_of(s.size) > low)
					return *word_of(whose(s.what), DP_ASK_NUMBER);
			}
		}
	}
	return 0;
}

/* ---- calls --------------------------------------------------------------- */

/* The frame of allocs.S. */
struct call {
	int64_t site; /* -1: none */
	uint64_t size;
	uint64_t into; /* where the block's address will be, for DP_ALLOC_INTO */
	uint64_t old, old_size, old_site; /* what moves; 0: nothing */
	uint64_t r11, r10, r9, r8, rcx, rdx, rsi, rdi;
	uint64_t body; /* at first where the thunk begins */
	uint64_t rax, rbp, back;
};

_Static_assert(offsetof(struct call, rbp) == 128, "frame");

/* How many bytes are asked for, and where the block's address will be, if a call says so. */
static void read_size(struct call *c, uint64_t kind)
{
	switch (kind) {
	case DP_ALLOC_SIZE:
		c->size = c->rdi;
		break;
	case DP_ALLOC_ARRAY:
		c->size = c->rdi * c->rsi;
		break;
	case DP_ALLOC_ALIGNED:
		c->size = c->rsi;
		break;
	case DP_ALLOC_INTO:
		c->into = c->rdi;
		c->size = c->rdx;
		break;
	default:
		c->size = kind == DP_ALLOC_AGAIN ? c->rsi : c->rsi * c->rdx;
	}
}

static int is_again(uint64_t kind) { return kind == DP_ALLOC_AGAIN || kind == DP_ALLOC_AGAIN_ARRAY; }

/* All blocks are noted, and no sites. Calls from here return to ours: who is asked by a jump of a function that was
 * called so has been asked by that one's caller. */
static int before_held(struct call *c, uint64_t kind, uint64_t ours)
{
	struct dp_held was;
	if (!dp_held_here()) {
		if (kind != DP_ALLOC_FREE)
			dp_held_elsewhere();
		return 0;
	}
	if (kind == DP_ALLOC_FREE) {
		if (dp_held_take(c->rdi, &was))
			dp_held_gone(&was);
		return 0;
	}
	if (c->back == ours)
		return 0;
	read_size(c, kind);
	if (is_again(kind) && dp_held_take(c->rdi, &was)) {
		c->old = c->rdi;
		c->old_site = was.what;
		c->old_size = was.size;
	}
	return 1;
}

/* A block that could not be made larger is as it was. */
static void after_held(struct call *c, uint64_t block)
{
	struct dp_held was = {c->old_site, c->old_size};
	if (c->old && !block && c->size)
		dp_held_keep(&was);
	else if (c->old)
		dp_held_gone(&was);
	if (block)
		dp_held_add(block, c->size, c->back);
}

int dp_alloc_before(struct call *c, uint64_t ours) HIDDEN;
int dp_alloc_before(struct call *c, uint64_t ours)
{
	uint64_t kind = ((const uint64_t *)c->body)[1];
	c->body += DP_ALLOC_BODY;
	c->into = c->old = 0;
	if (dp_held_are())
		return before_held(c, kind, ours);
	if (!own || !dp_region_area)
		return 0;
	if (kind == DP_ALLOC_FREE) {
		take_away(c->rdi, &c->old_site, &c->old_size);
		return 0;
	}
	c->site = site_of(c->back);
	read_size(c, kind);
	if (is_again(kind) && c->rdi && take_away(c->rdi, &c->old_site, &c->old_size)) {
		c->old = c->rdi;
		c->site = (int64_t)c->old_site;
	}
	return c->site >= 0;
}

/* A block that could not be made larger is as it was. One of 0 bytes is none: it has been
 * given back. One that has moved is no new one. */
void dp_alloc_after(struct call *c) HIDDEN;
void dp_alloc_after(struct call *c)
{
	uint64_t block = c->into ? ((uint32_t)c->rax ? 0 : *(const uint64_t *)c->into) : c->rax;
	if (dp_held_are()) {
		after_held(c, block);
		return;
	}
	if (block)
		add(block, c->size, (uint64_t)c->site);
	else if (c->old && c->size) {
		add(c->old, c->old_size, c->old_site);
		count(c->old_site, DP_ASK_BYTES, -c->old_size);
	}
	if (c->old && (block || c->size)) {
		count(c->old_site, DP_ASK_BLOCKS, (uint64_t)-1);
		count(c->old_site, DP_ASK_FREED, (uint64_t)-1);
	}
}
