/* See regions.h. All is in memory that hotspots run has made and keeps, so that nothing is lost
 * when the program is killed. There is no lock: handlers come in between, threads end, and a
 * child of fork may be killed, whose memory this is, too.
 *
 *  - A region that there is has an entry, with its number, which no other ever has, stored last;
 *    of who reads it while it becomes another's the number tells.
 *  - A record is put into the ring by exchanging all of its 16 bytes at once. So there are no
 *    halves of one, and no holes: what was put there has the first place that was free. Which that
 *    is is looked for from where the last one to say so has found it, or later.
 *  - Where the ring is full a thread waits for who takes records. Where that one does not live
 *    any more, or stands still for long, recording ends, and what follows is only counted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/filters.h"
#include "base/layout.h"
#include "base/pair.h"
#include "base/state.h"
#include "base/stub.h"
#include "rows/chunks.h"
#include "table/allocs.h"
#include "table/pages.h"
#include "table/regions.h"
#include "table/tracing.h"

struct live {
	uint64_t number, low, high, kinds;
};

struct past {
	uint64_t address, bytes, begin, end;
	char name[DP_LOG_SIZE - DP_LOG_NAME];
};

_Static_assert(sizeof(struct live) == DP_LIVE_SIZE && offsetof(struct live, high) == DP_LIVE_HIGH && offsetof(struct live, low) == DP_LIVE_LOW && offsetof(struct live, kinds) == DP_LIVE_KINDS, "live");
_Static_assert(sizeof(struct past) == DP_LOG_SIZE && offsetof(struct past, begin) == DP_LOG_BEGIN && offsetof(struct past, end) == DP_LOG_END && offsetof(struct past, bytes) == DP_LOG_BYTES, "past");


static uint64_t *word(uint64_t at) { return dp_region_word(at); }
static struct past *past_at(uint64_t number) { return (struct past *)(dp_region_area + DP_RG_LOG) + number; }
static struct live *live_at(uint64_t i) { return (struct live *)(dp_region_area + DP_RG_LIVE) + i; }
static uint64_t get(uint64_t at) { return dp_region_get(at); }

static const uint64_t BEING_MADE = ~0ULL, NO_REGION = ~0ULL;

void dp_regions_begin(uint64_t at)
{
	dp_region_area = (uint8_t *)at;
	*word(DP_RG_LEAST) = ~0ULL;
}
void dp_regions_end(void) { dp_region_area = 0; }
int dp_regions_are(void) { return dp_region_area && !dp_is_off() && !dp_stopped(); }

/* ---- the ring ------------------------------------------------------------ */

static uint64_t tag_of(uint64_t number) { return (number / DP_RG_RECORDS + 1) & ((1U << DP_REC_TAG_BITS) - 1); }
static uint64_t *slot_of(uint64_t number) { return word(DP_RG_RING) + 2 * (number % DP_RG_RECORDS); }
static uint64_t tag_at(uint64_t number) { return __atomic_load_n(slot_of(number), __ATOMIC_ACQUIRE) >> DP_REC_ADDRESS_BITS; }

/* A number in front of which no place is free. */
static uint64_t not_free(void)
{
	uint64_t head = get(DP_RG_HEAD), tail = get(DP_RG_TAIL);
	return head > tail ? head : tail;
}

/* The number of the next record. */
static uint64_t next_number(void)
{
	uint64_t n = not_free();
	for (; tag_at(n) == tag_of(n) || n < get(DP_RG_TAIL); n++)
		;
	return n;
}

/* ---- regions ------------------------------------------------------------ */

static const uint64_t MOST_BYTES = 1ULL << 36, END = 1ULL << DP_REC_ADDRESS_BITS;

static struct live *take_live(void)
{
	for (uint64_t i = 0; i < DP_RG_LIVES; i++) {
		uint64_t free_ = 0, used = get(DP_RG_USED);
		if (!__atomic_compare_exchange_n(&live_at(i)->number, &free_, BEING_MADE, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			continue;
		while (used <= i && !__atomic_compare_exchange_n(word(DP_RG_USED), &used, i + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			;
		return live_at(i);
	}
	return 0;
}

/* Takes a number and notes what it is of. 0: there is none left. */
static uint64_t take_number(uint64_t low, uint64_t size, const char *name, uint64_t kinds)
{
	uint64_t number = __atomic_add_fetch(word(DP_RG_NEXT), 1, __ATOMIC_SEQ_CST);
	if (number >= DP_RG_LOGS) {
		__atomic_fetch_sub(word(DP_RG_NEXT), 1, __ATOMIC_SEQ_CST);
		return 0;
	}
	struct past *p = past_at(number);
	p->address = low;
	p->bytes = size | kinds << DP_LOG_KINDS;
	text_copy(p->name, sizeof p->name, name ? name : "");
	__atomic_store_n(&p->begin, next_number() + 1, __ATOMIC_RELEASE);
	return number;
}

/* What is recorded of regions that do not say it themselves. */
static unsigned kinds_chosen = DP_REGION_ALL;

int64_t dp_region_add(uint64_t low, uint64_t size, const char *name, unsigned kinds)
{
	if (!kinds)
		kinds = kinds_chosen;
	if (!dp_region_area)
		return -ENOSYS;
	if (!size || low >= END || size > END - low)
		return -EINVAL;
	if (size > MOST_BYTES)
		return -E2BIG;
	struct live *l = take_live();
	if (!l)
		return -ENOSPC;
	uint64_t number = take_number(low, size, name, kinds);
	if (!number) {
		__atomic_store_n(&l->number, 0, __ATOMIC_RELEASE);
		return -ENOSPC;
	}
	l->low = low;
	l->high = low + size;
	l->kinds = kinds;
	__atomic_store_n(&l->number, number, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(word(DP_RG_MADE), 1, __ATOMIC_SEQ_CST);
	dp_pages_widen(low, low + size);
	dp_pages_mark(low, low + size, 1);
	return (int64_t)number;
}

long dp_region_remove(int64_t number)
{
	if (!dp_region_area)
		return -ENOSYS;
	for (uint64_t i = 0, n = get(DP_RG_USED); number > 0 && i < n && i < DP_RG_LIVES; i++) {
		struct live *l = live_at(i);
		uint64_t low = l->low, high = l->high, was = (uint64_t)number;
		if (!__atomic_compare_exchange_n(&l->number, &was, BEING_MADE, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&past_at((uint64_t)number)->end, next_number() + 1, __ATOMIC_RELEASE);
		dp_pages_mark(low, high, (uint16_t)-1);
		__atomic_store_n(&l->number, 0, __ATOMIC_SEQ_CST);
		return 0;
	}
	return -ENOENT;
}

int64_t dp_region_at(uint64_t low)
{
	uint64_t found = 0;
	if (!dp_region_area)
		return -ENOSYS;
	for (uint64_t i = 0, n = get(DP_RG_USED); i < n && i < DP_RG_LIVES; i++) {
		uint64_t number = __atomic_load_n(&live_at(i)->number, __ATOMIC_ACQUIRE);
		if (number && number != BEING_MADE && number > found && live_at(i)->low == low)
			found = number;
	}
	return found ? (int64_t)found : -ENOENT;
}

/* Which region is alone on a page, as was found by then: page, how many regions had been made, entry.
 * Where one has been made since it is found anew; the entry says whether it is still there. */
enum { HINTS = 256, PAGE_BITS = 12, MADE_BITS = 15, LIVE_BITS = 8 };
static uint64_t hints[HINTS];

_Static_assert(DP_RG_LOGS < 1 << MADE_BITS && DP_RG_LIVES == 1 << LIVE_BITS && DP_REC_ADDRESS_BITS - PAGE_BITS + MADE_BITS + LIVE_BITS <= 64, "a hint");

/* The number of an entry, if its region has a byte of [low, high) and such accesses are recorded; 0: else. -1: it is no region. */
static inline uint64_t number_at(const struct live *l, uint64_t low, uint64_t high, uint64_t kinds)
{
	uint64_t number = __atomic_load_n(&l->number, __ATOMIC_ACQUIRE);
	if (!number || number == BEING_MADE)
		return NO_REGION;
	uint64_t from = __atomic_load_n(&l->low, __ATOMIC_ACQUIRE), to = __atomic_load_n(&l->high, __ATOMIC_ACQUIRE);
	kinds &= __atomic_load_n(&l->kinds, __ATOMIC_ACQUIRE);
	if (__atomic_load_n(&l->number, __ATOMIC_ACQUIRE) != number)
		return NO_REGION;
	return from < high && to > low && kinds ? number : 0;
}

/* region_of, by looking at all; if one is alone on the page, key will tell its entry. */
static __attribute__((noinline)) uint64_t look_for(uint64_t low, uint64_t high, uint64_t kinds, uint64_t page, uint64_t key)
{
	uint64_t begin = page << PAGE_BITS, end = begin + (1 << PAGE_BITS), found = 0, on = 0, alone = 0;
	for (uint64_t i = 0, n = get(DP_RG_USED); i < n && i < DP_RG_LIVES; i++) {
		uint64_t number = number_at(live_at(i), low, high, kinds);
		if (number == NO_REGION)
			continue;
		if (number > found)
			found = number;
		if (number_at(live_at(i), begin, end, DP_REGION_ALL)) {
			on++;
			alone = i;
		}
	}
	if (on == 1)
		__atomic_store_n(&hints[page % HINTS], key << LIVE_BITS | alone, __ATOMIC_RELAXED);
	return found;
}

/* The number of the region made last of those that have a byte of [low, high) and record such
 * accesses; 0: none has. */
static inline __attribute__((always_inline)) uint64_t region_of(uint64_t low, uint64_t high, uint64_t kinds)
{
	uint64_t page = low >> PAGE_BITS, key = page << MADE_BITS | get(DP_RG_MADE);
	uint64_t hint = __atomic_load_n(&hints[page % HINTS], __ATOMIC_RELAXED);
	if (hint >> LIVE_BITS == key && (high - 1) >> PAGE_BITS == page) {
		uint64_t number = number_at(live_at(hint % DP_RG_LIVES), low, high, kinds);
		if (number != NO_REGION)
			return number;
	}
	return look_for(low, high, kinds, page, key);
}

int dp_region_may(uint64_t at, uint64_t bytes) { return at + bytes < at || region_of(at, at + bytes, DP_REGION_ALL); }

uint64_t dp_region_of_site(const char *name)
{
	for (uint64_t i = 0, number; i < DP_RG_ASKS && (number = get(DP_RG_ASKED + i * DP_ASK_SIZE + DP_ASK_NUMBER)); i++)
		if (same_text(past_at(number)->name, name))
			return number;
	return take_number(0, 0, name, kinds_chosen);
}

void dp_regions_record(unsigned kinds) { kinds_chosen = kinds & DP_REGION_ALL; }

/* ---- records ------------------------------------------------------------- */

/* The number of what makes an access; DP_RG_SITE_MAX: there is no room for more. */
static uint64_t site_of(uint64_t home, uint64_t what)
{
	enum { LONGEST = 64 };
	uint64_t site = home | (what & ((1ULL << (64 - DP_SITE_ADDRESS_BITS)) - 1)) << DP_SITE_ADDRESS_BITS;
	uint64_t i = (site * 0x9e3779b97f4a7c15 >> 32) % DP_RG_SITE_MAX;
	for (int n = 0; n < LONGEST; n++, i = (i + 1) % DP_RG_SITE_MAX) {
		uint64_t *at = word(DP_RG_SITES) + i, is = __atomic_load_n(at, __ATOMIC_ACQUIRE);
		if (is == site || (!is && (__atomic_compare_exchange_n(at, &is, site, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) || is == site)))
			return i;
	}
	return DP_RG_SITE_MAX;
}

/* The thread's number, as its row has it, or as the kernel says. */
static inline __attribute__((always_inline)) uint64_t thread(void)
{
	uint32_t tid = 0;
	if (!dp.shared) {
		const struct dp_row *row = dp_own_row();
		if (row && row != dp.discard)
			tid = __atomic_load_n(&row->tid, __ATOMIC_RELAXED);
	}
	if (!tid) {
		long own = ask(SYS_gettid);
		tid = failed(own) ? 0 : (uint32_t)own;
	}
	return tid & ((1U << DP_REC_THREAD_BITS) - 1);
}

/* What waits has waited for: whether somebody still takes records. */
struct patience {
	uint64_t beats, since;
	uint32_t rounds;
};

/* Waits a moment. Returns 0 when that has been in vain for long. */
static int wait(struct patience *p)
{
	enum { ROUNDS = 100000, PAUSES = 1000 }; /* 10 s and more */
	struct timespec moment = {0, 50000};
	uint64_t beats = get(DP_RG_BEATS);
	if (beats != p->beats || !p->rounds) {
		p->beats = beats;
		p->rounds = 0;
	}
	if (++p->rounds > ROUNDS || get(DP_RG_ENDED))
		return 0;
	if (ask(SYS_nanosleep, &moment, 0) == REFUSED)
		for (int i = 0; i < PAUSES; i++)
			__builtin_ia32_pause();
	return 1;
}

/* Waits until the next record but n is taken. */
static int wait_for(uint64_t n)
{
	struct patience p = {0};
	uint64_t since = dp_now(CLOCK_MONOTONIC);
	int taken;
	__atomic_fetch_add(word(DP_RG_WAITS), 1, __ATOMIC_RELAXED);
	while (!(taken = get(DP_RG_TAIL) > n) && wait(&p))
		;
	uint64_t now = dp_now(CLOCK_MONOTONIC);
	if (since && now > since)
		__atomic_fetch_add(word(DP_RG_WAITED), now - since, __ATOMIC_RELAXED);
	return taken;
}

/* Who takes records has had the lines that come next, on another CPU: this one asks for them in time. */
static void fetch_ahead(uint64_t n)
{
	enum { LINE = 64 / (2 * sizeof(uint64_t)), AHEAD = 8 * LINE };
	if (n % LINE == 0)
		__asm__ volatile("prefetchw %0" : : "m"(*slot_of(n + AHEAD)));
}

/* Puts a record into the ring. Returns 0 if nobody takes any. For accesses all is in one piece: calls
 * would be a tenth of what one takes. */
static inline __attribute__((always_inline)) int put(uint64_t at, uint64_t what)
{
	enum { TAGS = (1U << DP_REC_TAG_BITS) - 1 };
	/* The tail comes first: n is never less, whoever takes records between the two. */
	for (uint64_t tail = get(DP_RG_TAIL), n = not_free();;) {
		if (n - tail >= DP_RG_RECORDS) {
			if (!wait_for(n - DP_RG_RECORDS))
				return 0;
			tail = get(DP_RG_TAIL);
			n = n < tail ? tail : n;
			continue;
		}
		uint64_t *slot = slot_of(n), next = tag_of(n);
		fetch_ahead(n);
		uint64_t low = __atomic_load_n(&slot[0], __ATOMIC_ACQUIRE), tag = low >> DP_REC_ADDRESS_BITS;
		if (tag == ((next - 1) & TAGS)) {
			if (!dp_exchange_pair(slot, low, __atomic_load_n(&slot[1], __ATOMIC_ACQUIRE), at | next << DP_REC_ADDRESS_BITS, what))
				continue;
			__atomic_store_n(word(DP_RG_HEAD), n + 1, __ATOMIC_RELEASE); /* who comes late makes it less: others look on */
			return 1;
		}
		if (tag == next) {
			n++;
			continue;
		}
		tail = get(DP_RG_TAIL); /* the ring has gone round meanwhile */
		n = not_free();
	}
}

/* A record that is no access. */
static __attribute__((noinline)) int put_event(uint64_t event, uint64_t argument, uint64_t value)
{
	return put(value & (END - 1), thread() | value >> DP_REC_ADDRESS_BITS << DP_REC_THREAD_BITS | argument << (DP_REC_THREAD_BITS + DP_REC_VALUE_BITS) |
					      event << (DP_REC_THREAD_BITS + DP_REC_VALUE_BITS + DP_REC_ARG_BITS) | 1ULL << DP_REC_EVENT_BIT);
}

/* Nobody takes records. */
static void stop(void) { __atomic_store_n(word(DP_RG_ENDED), 1, __ATOMIC_RELEASE); }

/* The first record of a window has its number in front of it. Who puts that notes so behind it: so
 * others that come meanwhile put it there, too, and none has its record in front. */
static int begin_window(void)
{
	uint64_t now = dp_trace_window(), seen = get(DP_RG_SEEN);
	if (now == seen)
		return 1;
	if (!put_event(DP_REC_WINDOW, 0, now))
		return 0;
	__atomic_compare_exchange_n(word(DP_RG_SEEN), &seen, now, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	return 1;
}

/* What is recorded has a time in front of it, less than a tick ago. Of others that come meanwhile each
 * may have its own: the later one counts. */
static int note_time(void)
{
	enum { TICK_BITS = 11 };
	uint64_t now = dp_trace_tsc(), last = get(DP_RG_TICK);
	if (now <= last || now >> TICK_BITS == last >> TICK_BITS)
		return 1;
	if (!put_event(DP_REC_TIME, 0, now))
		return 0;
	while (last < now && !__atomic_compare_exchange_n(word(DP_RG_TICK), &last, now, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	dp_trace_pair(now);
	return 1;
}

/* What has to be in front of a record. Returns 0 if nobody takes any. */
static __attribute__((noinline)) int begin(uint64_t off)
{
	return (!(off & DP_OFF_TURNS) || begin_window()) && (!(off & DP_OFF_TIMES) || note_time());
}

void dp_record(uint64_t at, uint64_t home, uint64_t what)
{
	if (!dp_regions_are() || at >= END)
		return;
	uint64_t high = at + (what & DP_RECORD_SIZE), kinds = what >> DP_RECORD_KIND & DP_REGION_ALL;
	uint64_t off = get(DP_RG_OFF);
	if (dp_trace_is_off(off, kinds))
		return;
	uint64_t region = region_of(at, high, kinds), block = dp_allocs_region(at, high);
	if (region < block && past_at(block)->bytes >> DP_LOG_KINDS & kinds)
		region = block;
	if (!region)
		return;
	if (get(DP_RG_ENDED)) {
		__atomic_fetch_add(word(DP_RG_LOST), 1, __ATOMIC_RELAXED);
		return;
	}
	uint64_t site = site_of(home, what);
	if (site == DP_RG_SITE_MAX) {
		__atomic_fetch_add(word(DP_RG_UNTOLD), 1, __ATOMIC_RELAXED);
		return;
	}
	if ((!off || begin(off)) && put(at, thread() | site << DP_REC_THREAD_BITS | region << (DP_REC_THREAD_BITS + DP_REC_SITE_BITS)))
		return;
	stop();
	__atomic_fetch_add(word(DP_RG_LOST), 1, __ATOMIC_RELAXED);
}

long dp_regions_mark(const char *name, uint64_t value)
{
	uint64_t n = dp_trace_name(name);
	if (n == DP_RG_NAME_MAX)
		return -ENOSPC;
	if (get(DP_RG_ENDED))
		return -ETIMEDOUT;
	if (begin(get(DP_RG_OFF)) && put_event(DP_REC_MARK, n, value))
		return 0;
	stop();
	return -ETIMEDOUT;
}

int dp_regions_full(void) { return not_free() - get(DP_RG_TAIL) >= DP_RG_RECORDS; }

int dp_region_told(int64_t number, struct dp_told *t)
{
	if (number <= 0 || (uint64_t)number >= DP_RG_LOGS || !__atomic_load_n(&past_at((uint64_t)number)->begin, __ATOMIC_ACQUIRE))
		return 0;
	const struct past *p = past_at((uint64_t)number);
	*t = (struct dp_told){.low = p->address, .size = p->bytes & ((1ULL << DP_LOG_KINDS) - 1), .kinds = p->bytes >> DP_LOG_KINDS, .removed = __atomic_load_n(&p->end, __ATOMIC_ACQUIRE) != 0};
	for (unsigned i = 0; i < sizeof t->done / sizeof *t->done; i++)
		t->done[i] = get(DP_RG_DONE + (uint64_t)number * DP_DONE_SIZE + i * sizeof(uint64_t));
	return 1;
}

long dp_regions_flush(void)
{
	if (!dp_region_area)
		return -ENOSYS;
	uint64_t n = next_number();
	struct patience p = {0};
	while (get(DP_RG_TAIL) < n)
		if (!wait(&p))
			return -ETIMEDOUT;
	return 0;
}
