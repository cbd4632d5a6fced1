/* Blocks of malloc that are known: who has asked for them, what was done with them, and which were given back.
 * At the end it says so: site NAME BLOCKS BYTES FREED FREED_BYTES, and block NAME ADDRESS BYTES for some. With
 * an argument there are so many blocks of "many". */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

struct site {
	const char *name;
	unsigned long blocks, bytes, freed, freed_bytes;
};

static void asked(struct site *s, unsigned long bytes) { s->blocks++, s->bytes += bytes; }
static void gave(struct site *s, unsigned long bytes) { s->freed++, s->freed_bytes += bytes; }

static struct site sites[] = {{"plain"}, {"array"}, {"aligned"}, {"posix"}, {"again"}, {"many"}, {"brief"}, {"later"}};
enum { PLAIN, ARRAY, ALIGNED, POSIX, AGAIN, MANY, BRIEF, LATER };

static void *volatile sink;
NOINLINE static void *plain(size_t n) { asked(&sites[PLAIN], n); return sink = malloc(n); }
NOINLINE static void *array(size_t n, size_t size) { asked(&sites[ARRAY], n * size); return sink = calloc(n, size); }
NOINLINE static void *aligned(size_t by, size_t n) { asked(&sites[ALIGNED], n); return sink = aligned_alloc(by, n); }
NOINLINE static void *posix(size_t by, size_t n)
{
	void *p;
	asked(&sites[POSIX], n);
	return sink = posix_memalign(&p, by, n) ? 0 : p;
}
NOINLINE static void *again(void *p, size_t n, struct site *was, size_t old)
{
	void *q = realloc(p, n);
	if (!q && n)
		return sink = p; /* it is as it was */
	if (p)
		gave(was, old);
	if (n)
		asked(&sites[AGAIN], n);
	return sink = q;
}
NOINLINE static void *many(size_t n) { asked(&sites[MANY], n); return sink = malloc(n); }
NOINLINE static void *brief(size_t n) { asked(&sites[BRIEF], n); return sink = malloc(n); }
NOINLINE static void *later(size_t n) { asked(&sites[LATER], n); return sink = malloc(n); }
NOINLINE static void give(void *p, struct site *of, size_t n) { gave(of, n); free(p); }

NOINLINE static void store(volatile unsigned char *p, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++)
		p[i] = (unsigned char)i;
}

static void says(const char *name, const void *p, size_t n) { printf("block %s %p %zu\n", name, p, n); }

static void pause_for(long ms) { usleep((useconds_t)ms * 1000); }

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 1000;
	setvbuf(stdout, 0, _IONBF, 0); /* no block of stdio's */
	static const char line[] = "begun\n";
	fputs(line, stdout);

	unsigned char *a = plain(1000), *b = plain(5000), *c = array(10, 300), *d = aligned(4096, 8192), *e = posix(64, 640);
	store(a, 0, 1000);
	store(b, 1024, 1024 + 64);
	store(d, 4096, 4097);
	store(e, 0, 64);
	says("plain", a, 1000);
	says("plain", b, 5000);
	says("array", c, 3000);
	says("aligned", d, 8192);
	says("posix", e, 640);

	unsigned char *f = plain(100);
	f = again(f, 200000, &sites[PLAIN], 100); /* it moves */
	if (again(f, SIZE_MAX / 4, &sites[AGAIN], 200000) != f)
		return 1;
	says("again", f, 200000);
	unsigned char *g = again(0, 77, 0, 0);
	again(g, 0, &sites[AGAIN], 77); /* it is given back */
	free(0);

	void **all = many((size_t)n * sizeof *all);
	for (long i = 0; i < n; i++)
		all[i] = many(24);
	for (int i = 0; i < 5000; i++) {
		unsigned char *p = brief(40);
		store(p, 0, 8);
		give(p, &sites[BRIEF], 40);
	}
	fflush(stdout);
	if (fork() == 0) { /* what a child does is not in the sums of its parent */
		for (long i = 0; i < n / 2; i++)
			free(all[i]);
		for (int i = 0; i < 100; i++)
			sink = malloc(5000);
		_exit(0);
	}
	wait(0);

	unsigned char *h = later(30000); /* a look has seen it */
	store(h, 0, 10000);
	says("later", h, 30000);
	pause_for(300);
	give(h, &sites[LATER], 30000);
	for (long i = 0; i < n; i += 2)
		give(all[i], &sites[MANY], 24);
	for (size_t i = 0; i < sizeof sites / sizeof *sites; i++)
		printf("site %s %lu %lu %lu %lu\n", sites[i].name, sites[i].blocks, sites[i].bytes, sites[i].freed, sites[i].freed_bytes);
	return 0;
}
