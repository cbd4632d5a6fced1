/* Allocates in two functions, and touches all blocks in a third. What it prints is how many
 * stores were made to blocks that mine() has asked for, and how many of these there were; behind it
 * what else has to hold. The first argument says what is done. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noipa))
#endif

enum how { MALLOC, CALLOC, REALLOC, ARRAY, ALIGNED, MEMALIGN, POSIX, VALLOC, HOWS };

static inline __attribute__((always_inline)) void *ask(enum how how, size_t n)
{
	void *p = 0;
	switch (how) {
	case MALLOC: p = malloc(n); break;
	case CALLOC: p = calloc(n / 8, 8); break;
	case REALLOC: p = realloc(0, n); break;
	case ARRAY: p = reallocarray(0, n / 8, 8); break;
	case ALIGNED: p = aligned_alloc(64, n); break;
	case MEMALIGN: p = memalign(256, n); break;
	case POSIX: p = posix_memalign(&p, 128, n) ? 0 : p; break;
	default: p = valloc(n);
	}
	__asm__ volatile("" : "+r"(p)); /* no tail call */
	if (!p)
		abort();
	return p;
}

ALONE void *mine(enum how how, size_t n) { return ask(how, n); }
ALONE void *others(enum how how, size_t n) { return ask(how, n); }

/* 1,024 bytes of it at most, the first among them. */
static size_t step(size_t n) { return n / 1024 + 1; }

ALONE void touch(volatile unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i += step(n))
		p[i] = (unsigned char)i;
}

static unsigned long stores, blocks;

static unsigned char *my(enum how how, size_t n)
{
	__atomic_add_fetch(&blocks, 1, __ATOMIC_RELAXED);
	return mine(how, n);
}

static void touch_mine(unsigned char *p, size_t n)
{
	touch(p, n);
	__atomic_add_fetch(&stores, (n + step(n) - 1) / step(n), __ATOMIC_RELAXED);
}

/* Neighbours, and what comes to lie in the place of freed blocks, are others'. */
static void plain(void)
{
	unsigned reused = 0;
	for (enum how how = 0; how < HOWS; how++)
		for (size_t n = 8; n <= 1 << 20; n *= 4) {
			unsigned char *a = others(how, n), *b = my(how, n), *c = others(how, n);
			touch(a, n);
			touch_mine(b, n);
			touch(c, n);
			touch(b + n, n % 16 ? 8 : 0); /* of malloc's, which has more */
			free(b);
			unsigned char *again = others(how, n);
			reused += again == b;
			touch(again, n);
			free(again);
			free(a);
			free(c);
		}
	printf("reused %d\n", reused > HOWS);
}

static void moves(void)
{
	unsigned moved = 0;
	for (size_t n = 16; n < 4 << 20; n *= 2) {
		unsigned char *p = my(MALLOC, n), *wall = others(MALLOC, n);
		touch_mine(p, n);
		unsigned char *q = realloc(p, 3 * n); /* by main: it stays mine */
		unsigned char *old = others(MALLOC, n);
		touch(old, n);
		moved += q != p;
		touch_mine(q, 3 * n);
		void *none = realloc(q, (size_t)-1 / 4);
		__asm__ volatile("" : "+r"(none));
		if (none)
			abort();
		touch_mine(q, 3 * n);
		q = realloc(q, n);
		touch_mine(q, n);
		if (n % 64)
			free(q);
		else {
			none = realloc(q, 0);
			__asm__ volatile("" : "+r"(none));
		}
		free(old);
		free(wall);
	}
	printf("moved %d\n", moved > 4);
}

enum { THREADS = 4, PLACES = 16 };
static int rounds;
static unsigned char *handed[PLACES];

/* Frees what another thread has asked for. */
static void *exchanges(void *seed)
{
	unsigned x = (unsigned)(size_t)seed;
	for (int i = 0; i < rounds; i++) {
		size_t n = 16 + (x = x * 1103515245 + 12345) / 65536 % 2000 / 8 * 8;
		unsigned char *p = my(x / 65536 % 3, n), *o = others(MALLOC, n);
		touch_mine(p, n);
		touch(o, n);
		free(__atomic_exchange_n(&handed[x / 1024 % PLACES], p, __ATOMIC_ACQ_REL));
		free(o);
	}
	return 0;
}

static void threads(int each)
{
	rounds = each;
	pthread_t t[THREADS];
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&t[i], 0, exchanges, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], 0);
	for (int i = 0; i < PLACES; i++)
		free(handed[i]);
}

static void many(size_t n)
{
	unsigned char **all = others(MALLOC, n * sizeof *all);
	for (size_t i = 0; i < n; i++)
		all[i] = my(MALLOC, 8 + i % 50);
	for (size_t i = 0; i < n; i++)
		touch_mine(all[i], 1);
	for (size_t i = 0; i < n; i++)
		free(all[i]);
	for (size_t i = 0; i < n; i++)
		all[i] = others(MALLOC, 8 + i % 50);
	for (size_t i = 0; i < n; i++)
		touch(all[i], 1);
}

/* What a child frees is still its parent's. */
static void forks(void)
{
	enum { N = 50, EACH = 100 };
	unsigned char *p[N];
	for (int i = 0; i < N; i++)
		p[i] = my(MALLOC, EACH);
	for (int round = 0; round < 3; round++) {
		pid_t child = fork();
		if (child == 0) {
			for (int i = 0; i < N; i++) {
				touch(p[i], EACH / 2);
				free(p[i]);
			}
			for (int i = 0; i < N; i++)
				touch(others(MALLOC, EACH), EACH);
			touch(mine(MALLOC, 3 * EACH), 3 * EACH);
			_exit(0);
		}
		waitpid(child, 0, 0);
		blocks += 1;
		stores += N * (EACH / 2) + 3 * EACH;
		for (int i = 0; i < N; i++)
			touch_mine(p[i], EACH);
	}
	for (int i = 0; i < N; i++)
		free(p[i]);
	for (int i = 0; i < N; i++)
		touch(others(MALLOC, EACH), EACH);
}

static unsigned char *kept;

static void handle(int n)
{
	(void)n;
	touch_mine(kept, 10);
}

/* While blocks come and go handlers touch one. */
static void signals(void)
{
	enum { ALL = 100 };
	struct itimerval often = {{0, 200}, {0, 200}};
	kept = my(MALLOC, 10);
	signal(SIGALRM, handle);
	setitimer(ITIMER_REAL, &often, 0);
	for (int i = 0; __atomic_load_n(&stores, __ATOMIC_RELAXED) < ALL * 10; i++) {
		unsigned char *p = my(MALLOC, 1 + i % 3000);
		free(p);
	}
	signal(SIGALRM, SIG_IGN);
}

/* Those of a library that comes later, twice. */
static void later(const char *path)
{
	for (int i = 0; i < 2; i++) {
		void *l = dlopen(path, RTLD_NOW);
		void *(*get)(size_t) = (void *(*)(size_t))dlsym(l, "get");
		if (!get)
			abort();
		unsigned char *p = get(100), *o = others(MALLOC, 100);
		blocks++;
		touch_mine(p, 100);
		touch(o, 100);
		free(p);
		dlclose(l);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "plain"))
		plain();
	else if (!strcmp(what, "moves"))
		moves();
	else if (!strcmp(what, "threads"))
		threads(atoi(argv[2]));
	else if (!strcmp(what, "many"))
		many(strtoul(argv[2], 0, 0));
	else if (!strcmp(what, "forks"))
		forks();
	else if (!strcmp(what, "signals"))
		signals();
	else if (!strcmp(what, "later"))
		later(argv[2]);
	printf("%lu %lu\n", stores, blocks);
	return 0;
}
