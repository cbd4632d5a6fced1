/* Functions that count themselves: ENTER at the start of each. The counters
 * lie in memory that forked children share. At exit tally_print, the last
 * destructor, writes the lines "calls NAME NUMBER" that the test compares with
 * the library's counts. */
#ifndef TALLY_H
#define TALLY_H

#include <stdio.h>
#include <sys/mman.h>

#ifdef __clang__
#define OWN __attribute__((noinline))
#else
#define OWN __attribute__((noinline, noclone))
#endif

struct tally { const char *name; };

extern struct tally __start_tallies[], __stop_tallies[];
static unsigned long *tally_calls; /* in the order of the names */

/* TALLY names a counter, for functions whose symbol is not __func__. */
#define TALLY(t, symbol) static struct tally t __attribute__((section("tallies"), used, aligned(8))) = {symbol}
#define ENTER_AS(t) __atomic_fetch_add(&tally_calls[&(t) - __start_tallies], 1, __ATOMIC_RELAXED)
#define ENTER do { TALLY(t_, __func__); ENTER_AS(t_); } while (0)

#ifdef __cplusplus
extern "C" {
#endif
__attribute__((constructor(101), used)) static void tally_map(void)
{
	tally_calls = (unsigned long *)mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

__attribute__((destructor(101), used)) static void tally_print(void)
{
	for (struct tally *t = __start_tallies; t < __stop_tallies; t++)
		printf("calls %s %lu\n", t->name, tally_calls[t - __start_tallies]);
}
#ifdef __cplusplus
}
#endif

#endif
