/* N functions, one in each KB of text, called in turn in a random order by N calls: what a
 * call takes by itself, counted, and counted with stubs and counters laid out in other ways.
 * Stubs are those of the jump tactic: count, 8 bytes of the function, jump back. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	MOST = 40000, KB = 1024, MB = 1 << 20, LINE = 64,
	OTHERS = 6,   /* of so many functions one is called */
	STUB = 32,    /* bytes */
	CALLS = 2000000,
};

static uint8_t *area; /* near each other: functions, those with jumps at their entries, stubs, calls */
static uint8_t *functions, *jumped, *stubs, *stubs_of_large, *callers;
static uint64_t *counters;
static int order[MOST], turn[MOST], place[MOST]; /* who is called when, and the reverse; where in its KB */

static uint32_t random_below(uint32_t n)
{
	static uint64_t r = 7;
	r = r * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(r >> 33) % n;
}

static void relative(uint8_t **at, uint8_t op, const uint8_t *to)
{
	int32_t distance = (int32_t)(to - (*at + 5));
	**at = op;
	memcpy(*at + 1, &distance, sizeof distance);
	*at += 5;
}

/* push %rbp; mov %rsp,%rbp; sub $0x20,%rsp */
static const uint8_t window[] = "\x55\x48\x89\xe5\x48\x83\xec\x20";
enum { WINDOW = sizeof window - 1 };

/* lea 1(%rdi),%rax; leave; ret */
static const uint8_t rest[] = "\x48\x8d\x47\x01\xc9\xc3";

static uint8_t *function(uint8_t *of, int i) { return of + (uint64_t)i * KB + place[i] * 16; }

struct layout {
	const char *name;
	int entry;  /* by the jump at the entry */
	int packed; /* stubs in the order of calls, and no others between them */
	int dense;  /* counters, too */
	int large;  /* pages, of stubs */
	int native;
};

static const struct layout layouts[] = {
	{"native", .native = 1},
	{"by the entry", .entry = 1},
	{"direct", .native = 0},
	{"direct, large pages", .large = 1},
	{"direct, stubs packed", .packed = 1},
	{"direct, all packed", .packed = 1, .dense = 1},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static uint8_t *stub(const struct layout *l, int i)
{
	uint8_t *of = l->large ? stubs_of_large : stubs + (l - layouts) * 16 * MB;
	return of + (l->packed ? turn[i] * STUB : i * OTHERS * STUB);
}

static void write_stub(const struct layout *l, int i)
{
	uint8_t *at = stub(l, i);
	int32_t counter = 8 * (l->dense ? turn[i] : i * OTHERS);
	memcpy(at, "\x65\x48\xff\x04\x25", 5); /* incq %gs:counter */
	memcpy(at + 5, &counter, 4);
	memcpy(at + 9, window, WINDOW);
	at += 9 + WINDOW;
	relative(&at, 0xe9, function(l->entry ? jumped : functions, i) + WINDOW);
}

static uint8_t *caller(const struct layout *l) { return callers + (l - layouts) * MB; }

static void lay(const struct layout *l, int n)
{
	uint8_t *at = caller(l);
	for (int i = 0; i < n; i++)
		write_stub(l, i);
	for (int k = 0; k < n; k++) {
		int i = order[k];
		relative(&at, 0xe8, l->native ? function(functions, i) : l->entry ? function(jumped, i) : stub(l, i));
	}
	*at = 0xc3;
	for (int i = 0; l->entry && i < n; i++) {
		at = function(jumped, i);
		relative(&at, 0xe9, stub(l, i));
	}
}

static void lay_all(int n)
{
	for (int i = 0; i < n; i++)
		order[i] = i;
	for (int i = n - 1; i > 0; i--) {
		int k = (int)random_below((uint32_t)i + 1), was = order[i];
		order[i] = order[k];
		order[k] = was;
	}
	for (int i = 0; i < n; i++) {
		turn[order[i]] = i;
		place[i] = (int)random_below(56);
		for (int copy = 0; copy < 2; copy++) {
			uint8_t *at = function(copy ? jumped : functions, i);
			memcpy(at, window, WINDOW);
			memcpy(at + WINDOW, rest, sizeof rest - 1);
		}
	}
	for (int k = 0; k < LAYOUTS; k++)
		lay(&layouts[k], n);
}

/* ns a call */
static double measure(const struct layout *l, int n)
{
	void (*run)(void) = (void (*)(void))caller(l);
	struct timespec from, to;
	run();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	for (int i = 0; i < CALLS / n; i++)
		run();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / ((double)(CALLS / n) * n);
}

static void *map(uint64_t size, int prot)
{
	void *at = mmap(0, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		exit(1);
	return at;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 9;
	area = map(512ull * MB, PROT_READ | PROT_WRITE | PROT_EXEC);
	area = (uint8_t *)(((uint64_t)area + 2 * MB - 1) & -(uint64_t)(2 * MB));
	functions = area;
	jumped = functions + 64 * MB;
	stubs = jumped + 64 * MB;
	stubs_of_large = stubs + LAYOUTS * 16 * MB;
	callers = stubs_of_large + 16 * MB;
	madvise(stubs_of_large, 16 * MB, MADV_HUGEPAGE);
	counters = map(MOST * OTHERS * 8ull, PROT_READ | PROT_WRITE);
	syscall(SYS_arch_prctl, ARCH_SET_GS, counters);
	printf("%-8s", "N");
	for (int k = 0; k < LAYOUTS; k++)
		printf("| %-22s", layouts[k].name);
	printf("\n");
	for (int n = 100; n <= MOST; n = n == 10000 ? MOST : n % 3 ? n * 3 : n / 3 * 10) {
		double least[LAYOUTS] = {0};
		lay_all(n);
		for (int r = 0; r < rounds; r++)
			for (int k = 0; k < LAYOUTS; k++) {
				double ns = measure(&layouts[k], n);
				least[k] = r == 0 || ns < least[k] ? ns : least[k];
			}
		printf("%-8d", n);
		for (int k = 0; k < LAYOUTS; k++)
			printf("| %-22.2f", least[k]);
		printf("\n");
		fflush(stdout);
	}
	return 0;
}
