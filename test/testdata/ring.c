/* libdynprof/resident/table/regions.c: others put records, and those are taken, between any two
 * looks at the ring of a thread that puts one, from the ring's first round on. */
#include <stdint.h>
#include "table/pages.h"
static uint64_t watched(uint64_t at);
#define dp_region_get watched
#include "../../libdynprof/resident/table/regions.c"
#undef dp_region_get

/* What else it needs is not asked for here. */
struct dp_state dp;
uint64_t dp_withdrawn;
uint8_t *dp_region_area;
uint64_t dp_now(int clock) { return (uint64_t)clock; }
int dp_stopped(void) { return 0; }
int dp_enter(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) { return (void)nr, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, 1; }
void dp_leave(int entered) { (void)entered; }
struct dp_row *dp_own_row(void) { return 0; }
void dp_pages_widen(uint64_t low, uint64_t high) { (void)low, (void)high; }
void dp_pages_mark(uint64_t low, uint64_t high, uint16_t by) { (void)low, (void)high, (void)by; }
uint64_t dp_trace_tsc(void) { return 0; }
void dp_trace_pair(uint64_t tsc) { (void)tsc; }
uint64_t dp_trace_why(uint64_t off, uint64_t kinds) { return (void)kinds, off; }
uint64_t dp_trace_name(const char *name) { return (void)name, 0; }
uint64_t dp_allocs_region(uint64_t low, uint64_t high) { return low + high; }

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t looks, when, many;

/* That many records have been put, and taken. Whoever put them has stored the head, or not yet. */
static void others(int late)
{
	uint64_t tail = dp_region_get(DP_RG_TAIL);
	for (uint64_t n = tail; n < tail + many; n++)
		slot_of(n)[0] = 0x1000 | tag_of(n) << DP_REC_ADDRESS_BITS;
	if (!late)
		*word(DP_RG_HEAD) = tail + many;
	*word(DP_RG_TAIL) = tail + many;
}

static uint64_t watched(uint64_t at)
{
	uint64_t is = dp_region_get(at);
	if (++looks == when || looks == when + 40) /* while it waits, too */
		others(when & 1);
	return is;
}

int main(void)
{
	int failed = 0;
	dp_region_area = aligned_alloc(4096, DP_RG_SIZE);
	alarm(20); /* it waits for ever */
	for (uint64_t begin = 0; begin <= 2 * DP_RG_RECORDS; begin += DP_RG_RECORDS)
		for (many = 1; many <= DP_RG_RECORDS; many *= 16)
			for (when = 1; when <= 8; when++) {
				memset(dp_region_area, 0, DP_RG_SIZE);
				for (uint64_t n = 0; n < begin; n++)
					slot_of(n)[0] = 0x1000 | tag_of(n) << DP_REC_ADDRESS_BITS;
				*word(DP_RG_HEAD) = *word(DP_RG_TAIL) = begin;
				looks = 0;
				int done = put(0x2000, 7), found = 0;
				for (uint64_t n = begin; n <= begin + 2 * many; n++)
					found += slot_of(n)[0] == (0x2000 | tag_of(n) << DP_REC_ADDRESS_BITS) && slot_of(n)[1] == 7;
				if (!done || !found || looks >= 40 + when) {
					printf("from %lu, %lu by others at look %lu: put %d, found %d, %lu looks\n", begin, many, when, done, found, looks);
					failed = 1;
				}
			}
	return failed;
}
