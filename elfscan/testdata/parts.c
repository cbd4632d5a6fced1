/* Functions that gcc -O2 splits: the branches to fail() are cold. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((cold, noinline)) void fail(const char *why, int n)
{
	fprintf(stderr, "%s %d\n", why, n);
}

/* Its part runs with registers pushed: CFA is not rsp+8 there. */
__attribute__((noinline)) long sum(int *p, int n, int (*weigh)(int))
{
	long s = 0;
	for (int i = 0; i < n; i++) {
		if (__builtin_expect(p[i] < 0, 0)) {
			fail("negative", i);
			fail("again", n);
		}
		s += weigh(p[i]) * (long)n;
	}
	return s;
}

/* Its part starts with nothing pushed, as a function does. */
__attribute__((noinline)) int leaf(int x)
{
	if (__builtin_expect(x < 0, 0)) {
		fail("leaf", x);
		abort();
	}
	return x * 3;
}

static __attribute__((noinline)) int local(int x) { return x ^ 5; }
__attribute__((weak)) int weak_name(int x) { return x + 1; }
int strong_name(int) __attribute__((alias("weak_name")));
int _under_name(int) __attribute__((alias("weak_name")));

static int fast(int x) { return x + 2; }
static int slow(int x) { return x + 3; }
static int (*resolve(void))(int) { return getenv("SLOW") ? slow : fast; }
int chosen(int) __attribute__((ifunc("resolve")));

int (*volatile pointers[])(int) = { leaf, local, weak_name };

int main(int argc, char **argv)
{
	int v[] = { argc, 2, 3 };
	return (sum(v, 3, pointers[argc % 3]) + leaf(argc) + chosen(argc) + fast(local(argc))) & 1;
}
