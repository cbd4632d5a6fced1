/* 4,096 functions with 32,768 calls of each other; each is hooked in turn, and its pages
 * are made writable for that alone. It says how long that took. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define EACH(m, X, Y) m(X, Y, 0) m(X, Y, 1) m(X, Y, 2) m(X, Y, 3) m(X, Y, 4) m(X, Y, 5) m(X, Y, 6) m(X, Y, 7) \
	m(X, Y, 8) m(X, Y, 9) m(X, Y, a) m(X, Y, b) m(X, Y, c) m(X, Y, d) m(X, Y, e) m(X, Y, f)
#define MANY(m, X) EACH(m, X, 0) EACH(m, X, 1) EACH(m, X, 2) EACH(m, X, 3) EACH(m, X, 4) EACH(m, X, 5) EACH(m, X, 6) EACH(m, X, 7) \
	EACH(m, X, 8) EACH(m, X, 9) EACH(m, X, a) EACH(m, X, b) EACH(m, X, c) EACH(m, X, d) EACH(m, X, e) EACH(m, X, f)
#define ALL(m) MANY(m, 0) MANY(m, 1) MANY(m, 2) MANY(m, 3) MANY(m, 4) MANY(m, 5) MANY(m, 6) MANY(m, 7) \
	MANY(m, 8) MANY(m, 9) MANY(m, a) MANY(m, b) MANY(m, c) MANY(m, d) MANY(m, e) MANY(m, f)

#define F(X, Y, Z) f##X##Y##Z
#define DECLARE(X, Y, Z) long F(X, Y, Z)(long);
#define CALL(X, Y, Z) if (x & 1) s += F(X, Y, Z)(x >> 1); else x += 2;
#define DEFINE(X, Y, Z) __attribute__((noipa)) long F(X, Y, Z)(long x) { long s = x; if (x > 0) { \
	CALL(Y, Z, X) CALL(Z, X, Y) CALL(Y, X, Z) CALL(X, Z, Y) CALL(Z, Y, X) CALL(X, Y, X) CALL(Y, X, Y) CALL(Z, X, Z) } return s; }
#define NAME(X, Y, Z) F(X, Y, Z),
ALL(DECLARE)
ALL(DEFINE)

static long (*const functions[])(long) = {ALL(NAME)};
static long other(long x) { return x + 5; }

int main(void)
{
	enum { N = sizeof functions / sizeof *functions };
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < N; i++) {
		char jump[5] = {(char)0xe9}, *at = (char *)functions[i], *low = (char *)((uintptr_t)at & -4096);
		int distance = (int)((char *)other - (at + 5));
		memcpy(jump + 1, &distance, 4);
		mprotect(low, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
		memcpy(at, jump, 5);
		mprotect(low, 8192, PROT_READ | PROT_EXEC);
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%ld, %d hooks in %.2f s\n", functions[9](3), N, (b.tv_sec - a.tv_sec) + (b.tv_nsec - a.tv_nsec) / 1e9);
	return 0;
}
