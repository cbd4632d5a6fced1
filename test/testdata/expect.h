/* Programs that test themselves: what was wrong is printed, and remembered. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>

#ifdef __clang__
#define OWN __attribute__((noinline))
#else
#define OWN __attribute__((noinline, noclone))
#endif

static int wrong;

static inline void fail(const char *what, long got, long want)
{
	wrong = 1;
	printf("%s: %ld, not %ld\n", what, got, want);
}

static inline void expect(const char *what, long got, long want)
{
	if (got != want)
		fail(what, got, want);
}

#endif
