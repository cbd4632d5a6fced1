/* See pages.h. */
#include "base/stub.h"
#include "table/pages.h"

enum { PAGE_BITS = 12, MANY = 0x4000 };
static const uint64_t END = 1ULL << DP_REC_ADDRESS_BITS;

uint8_t *dp_region_area HIDDEN;

static uint64_t *word(uint64_t at) { return dp_region_word(at); }
static uint64_t get(uint64_t at) { return dp_region_get(at); }

/* Guards compare an address with one word, and look closer if the difference is negative: so many
 * are below the end of all regions, or, if these are far up, not below their beginning; and if an
 * address may go round, any that a program has. */
static uint64_t edge_of(uint64_t low, uint64_t high)
{
	const uint64_t half = 1ULL << 63, far_up = 0x600000000000; /* between the heap and what is mapped */
	if (low == 0)
		return half >> 1;
	return low < far_up ? high + 1 : low + half;
}

/* Checks by a register (stubgen/emit/record.go) are of up to DP_RECORD_MOST bytes from where it
 * leads, or so many in front of that, on. Who is outside of these bounds needs no look at the
 * shadow. They only grow. Where there has been none both are 0, with which the least is jumped. */
void dp_pages_widen(uint64_t low, uint64_t high)
{
	uint64_t is = get(DP_RG_HIGH), least = get(DP_RG_LEAST);
	high = low < 2 * DP_RECORD_MOST ? ~0ULL : high + DP_RECORD_MOST; /* addresses go round */
	low = low < 2 * DP_RECORD_MOST ? 0 : low - 2 * DP_RECORD_MOST;
	while (high > is && !__atomic_compare_exchange_n(word(DP_RG_HIGH), &is, high, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	while (low < least && !__atomic_compare_exchange_n(word(DP_RG_LEAST), &least, low, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	for (is = get(DP_RG_LOW); is != (least = get(DP_RG_LEAST)); is = get(DP_RG_LOW)) /* another may have lowered it */
		__atomic_compare_exchange_n(word(DP_RG_LOW), &is, least, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	for (;;) { /* who has read less than there is by now finds that the word is another, as it never becomes what it was */
		uint64_t was = get(DP_RG_EDGE);
		least = get(DP_RG_LOW);
		uint64_t edge = edge_of(least, get(DP_RG_HIGH));
		if (edge == was || __atomic_compare_exchange_n(word(DP_RG_EDGE), &was, edge, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			break;
	}
}

static uint64_t first_page(uint64_t low) { return (low < DP_RECORD_MOST ? 0 : low - DP_RECORD_MOST + 1) >> PAGE_BITS; }
static uint16_t *shadow_at(uint64_t page) { return (uint16_t *)DP_SHADOW + page; }

void dp_pages_mark(uint64_t low, uint64_t high, uint16_t by)
{
	uint64_t first = first_page(low), last = (high - 1) >> PAGE_BITS;
	for (uint64_t i = first; i <= last; i++)
		__atomic_fetch_add(shadow_at(i), by, __ATOMIC_SEQ_CST);
	if (first == 0) /* a check may begin in front of 0, by 47 bits */
		__atomic_fetch_add(shadow_at((END >> PAGE_BITS) - 1), by, __ATOMIC_SEQ_CST);
}

int dp_pages_have(uint64_t at) { return at < END && __atomic_load_n(shadow_at(at >> PAGE_BITS), __ATOMIC_SEQ_CST) != 0; }

void dp_pages_keep(uint64_t low, uint64_t high)
{
	for (uint64_t i = first_page(low), last = (high - 1) >> PAGE_BITS; i <= last; i++)
		if (__atomic_load_n(shadow_at(i), __ATOMIC_SEQ_CST) < MANY)
			__atomic_fetch_add(shadow_at(i), 1, __ATOMIC_SEQ_CST);
}
