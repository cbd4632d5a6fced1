/* libdynprof/resident/base/kept.c: as many as there are, noted by several threads. */
#include "../../libdynprof/resident/base/kept.c"

#include <pthread.h>
#include <stdio.h>

#define CHECK(is) (void)((is) || (printf("line %d: %s\n", __LINE__, #is), failed = 1))

enum { THREADS = 4, EACH = 1000, APART = 4 * DP_PAGE_SIZE };
static struct dp_kept kept[THREADS][EACH];

static uint64_t place(long thread, long n) { return (uint64_t)(1 + thread * EACH + n) * APART; }

static void *notes(void *thread)
{
	for (long n = 0; n < EACH; n++)
		dp_note_kept(&kept[(long)thread][n], (const void *)place((long)thread, n), DP_PAGE_SIZE + 1);
	return 0;
}

int main(void)
{
	pthread_t threads[THREADS];
	int failed = 0;
	CHECK(!dp_is_kept(0, ~0ULL));
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], 0, notes, (void *)i);
	for (long i = 0; i < THREADS; i++)
		pthread_join(threads[i], 0);
	for (long i = 0; i < THREADS * EACH; i++) {
		uint64_t low = place(i / EACH, i % EACH), high = low + 2 * DP_PAGE_SIZE;
		CHECK(dp_is_kept(low, low + 1) && dp_is_kept(high - 1, high));
		CHECK(!dp_is_kept(low - APART / 2, low) && !dp_is_kept(high, high + 1));
	}
	return failed;
}
