/* What the workloads in C share.
 *
 * A function of a workload is called as often as written: it is not inlined,
 * and the empty asm in it keeps calls from being merged or left out. */
#include <stdio.h>
#include <stdlib.h>

/* The same place on a page in every build, whatever is linked in front. */
__asm__(".text\n\t.p2align 12");

#define APART __attribute__((noinline)) long
#define KEEP(x) __asm__ volatile("" : "+r"(x))

/* How often the work is to be done: the first argument. */
static long size(int argc, char **argv) { return argc > 1 ? atol(argv[1]) : 1; }

/* The limit program (limit.c) points GS at a row for each thread. */
__attribute__((weak)) void limit_thread(void);
static inline void begin_thread(void) {
	if (limit_thread)
		limit_thread();
}

/* TIMES10(X, n) is X(n0) ... X(n9): numbers are put together from digits. */
#define TIMES10(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
