/* Memory of which it is known what is done with it: variables and blocks that nothing touches, or reads. With an
 * argument it says so: NAME untouched BYTES, or NAME unread BYTES, the most at a time. Without one it makes no
 * system call that reads or writes memory. */
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noipa))
#define ALIGNED __attribute__((aligned(64), used))

static ALIGNED volatile char never[100032]; /* whole lines, so that they share none */
static ALIGNED volatile char filled[65536];
static ALIGNED volatile char partly[65536];
static ALIGNED volatile char both[65536];
static ALIGNED volatile char last[64];

static void *volatile sink;
NOINLINE static char *mostly(size_t n) { return sink = malloc(n); }
NOINLINE static char *logs(size_t n) { return sink = aligned_alloc(64, n); }
NOINLINE static char *brief(size_t n) { return sink = malloc(n); }
NOINLINE static char *large(size_t n) { return sink = malloc(n); }
NOINLINE static char *useful(size_t n) { return sink = malloc(n); }

NOINLINE static void store(volatile char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)i;
}

NOINLINE static int load(volatile char *p, size_t n)
{
	int sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += p[i];
	return sum;
}

int main(int argc, char **argv)
{
	(void)argv;
	int sum = 0;
	store(filled, sizeof filled);
	store(partly, sizeof partly);
	sum += load(partly, sizeof partly / 4);
	store(both, sizeof both);
	sum += load(both, sizeof both);
	store(last, sizeof last);
	sum += load(last, sizeof last);

	for (int i = 0; i < 50; i++) {
		char *p = mostly(9992);
		store(p, 8);
		sum += load(p, 8);
	}
	store(logs(32768), 32768);
	store(logs(16384), 16384);
	for (int i = 0; i < 3000; i++)
		free(brief(5000));
	char *p = large(1 << 20);
	store(p, 8);
	sum += load(p, 8);
	p = useful(40000);
	store(p, 40000);
	sum += load(p, 40000);
	if (argc > 1) {
		printf("never untouched %zu\n", sizeof never);
		printf("filled unread %zu\n", sizeof filled);
		printf("partly unread %zu\n", sizeof partly - sizeof partly / 4);
		printf("mostly untouched %d\n", 50 * (9992 - 8));
		printf("logs unread %d\n", 32768 + 16384);
		printf("large untouched %d\n", (1 << 20) - 8);
	}
	return sum == 0x7fffffff;
}
