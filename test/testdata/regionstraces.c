/* Does known accesses to memory while recording is on and off, with marks in between, by
 * dynprof_trace.h. It writes down what has to be recorded, in order, to the file that its first
 * argument names: "REGION OFFSET SIZE KIND", "mark NAME VALUE", "window NUMBER". The second argument
 * is what is done. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dynprof_trace.h"
#include "memtr.h"

static unsigned char table[256] __attribute__((aligned(64))), apart[8192] __attribute__((aligned(4096)));
static FILE *expected;

__attribute__((noinline)) static void store(unsigned char *p) { __asm__ volatile("movb $1, (%0)" : : "r"(p) : "memory"); }
__attribute__((noinline)) static void load(unsigned char *p) { __asm__ volatile("movzwl (%0), %%eax" : : "r"(p) : "rax", "memory"); }
__attribute__((noinline)) static void both(unsigned char *p) { __asm__ volatile("addl $1, (%0)" : : "r"(p) : "memory", "cc"); }

static void expect(int region, int offset, int size, const char *kind) { fprintf(expected, "%d %d %d %s\n", region, offset, size, kind); }

static int fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	return 3;
}

#define CHECK(what) do { if (!(what)) return fail(#what); } while (0)

/* ---- marks ---- */

static int mark(const char *name, uint64_t value)
{
	fprintf(expected, "mark %.95s %llu\n", name, (unsigned long long)value);
	return dynprof_trace_mark(name, value);
}

static int marks(void)
{
	char longest[200], name[32];
	memset(longest, 'l', sizeof longest - 1);
	longest[sizeof longest - 1] = 0;
	CHECK(mark("begin", 0) == 0);
	CHECK(memtr_regist(table, sizeof table) == 0);
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof name, "frame, \"%d\"", i % 3);
		CHECK(mark(name, ~0ULL - (uint64_t)i) == 0);
		store(table + i), expect(1, i, 1, "store");
		CHECK(mark("bits", 1ULL << (3 * i)) == 0);
	}
	char *end = (char *)apart + 8192 - 4; /* a name that ends with its page */
	strcpy(end, "end");
	CHECK(mark(end, 7) == 0 && mark(longest, 8) == 0 && mark("", 9) == 0);
	fflush(expected);
	pid_t child = fork();
	if (child == 0) {
		store(table + 3);
		_exit(dynprof_trace_mark("child", 3) != 0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	expect(1, 3, 1, "store");
	fprintf(expected, "mark child 3\n");
	return dynprof_trace_flush();
}

/* More names than there may be, by handlers in between, too. */
static volatile sig_atomic_t handled, wrong;

static void handler(int sig)
{
	(void)sig;
	wrong |= dynprof_trace_mark("handler", (uint64_t)handled) != 0 || dynprof_trace_state() < 0 || dynprof_trace_thread(1) != 0;
	handled++;
}

static int many(void)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
	char name[32];
	int n = 0, err = 0;
	CHECK(sigaction(SIGALRM, &act, 0) == 0 && dynprof_trace_mark("handler", 1000000) == 0);
	for (setitimer(ITIMER_REAL, &often, 0); n < 5000; n++) {
		snprintf(name, sizeof name, "name %d", n);
		err = dynprof_trace_mark(name, (uint64_t)n);
		if (n < 4095 ? err != 0 : err != -ENOSPC)
			break;
	}
	while (handled < 100)
		wrong |= dynprof_trace_mark("name 0", 0) != 0;
	setitimer(ITIMER_REAL, &never, 0);
	CHECK(n == 5000 && !wrong);
	fprintf(expected, "%d\n", (int)handled);
	return 0;
}

/* ---- windows ---- */

static int state(int is, int why)
{
	int64_t now = dynprof_trace_state();
	return DYNPROF_TRACE_STATE(now) == is && DYNPROF_TRACE_WHY(now) == why;
}

static void three(int offset) { load(table + offset), store(table + offset), both(table + offset); }

static void expect_three(int offset, int loads, int stores)
{
	if (loads)
		expect(1, offset, 2, "load");
	if (stores)
		expect(1, offset, 1, "store");
	expect(1, offset, 4, "both");
}

static int windows(void)
{
	struct dynprof_trace_options o = {.size = sizeof o, .modes = DYNPROF_TRACE_REGIONS};
	CHECK(memtr_regist(table, sizeof table) == 0 && state(DYNPROF_TRACE_IS_ON, 0));
	three(0), expect_three(0, 1, 1);
	CHECK(dynprof_trace_on(0) == 0); /* it is on */
	three(4), expect_three(4, 1, 1);
	CHECK(dynprof_trace_off() == 0 && dynprof_trace_off() == 0 && state(DYNPROF_TRACE_IS_OFF, DYNPROF_TRACE_BY_PROGRAM));
	three(8);
	CHECK(mark("off", 1) == 0);
	CHECK(dynprof_trace_on(&o) == 0);
	fprintf(expected, "window 1\n");
	three(12), expect_three(12, 1, 1);
	o.kinds = DYNPROF_TRACE_LOAD;
	CHECK(dynprof_trace_on(&o) == 0 && state(DYNPROF_TRACE_IS_ON, 0));
	three(16), expect_three(16, 1, 0);
	CHECK(dynprof_trace_off() == 0 && dynprof_trace_on(0) == 0); /* of all kinds again; nothing was in between */
	CHECK(dynprof_trace_off() == 0);
	fflush(expected);
	pid_t child = fork(); /* for who is forked, too, and by whom */
	if (child == 0) {
		three(20);
		if (dynprof_trace_on(0) != 0)
			_exit(1);
		three(24);
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	fprintf(expected, "window 3\n");
	expect_three(24, 1, 1);
	three(28), expect_three(28, 1, 1);
	return 0;
}

/* ---- threads ---- */

enum { THREADS = 6, ROUNDS = 500 };

/* Of each two the second one is not recorded, but in the middle. */
static void *in_thread(void *number)
{
	int n = (int)(long)number, bad = 0;
	if (n % 2)
		bad |= dynprof_trace_thread(0) != 0 || !state(DYNPROF_TRACE_IS_OFF, DYNPROF_TRACE_BY_THREAD);
	for (int i = 0; i < ROUNDS; i++)
		store(table + n);
	if (n % 2)
		bad |= dynprof_trace_thread(1) != 0 || !state(DYNPROF_TRACE_IS_ON, 0);
	store(table + 100 + n);
	if (n % 2)
		bad |= dynprof_trace_thread(0) != 0; /* who comes to its row later is recorded */
	return (void *)(long)bad;
}

static int threads(int shared)
{
	pthread_t t[THREADS];
	CHECK(memtr_regist(table, sizeof table) == 0);
	if (shared) {
		CHECK(dynprof_trace_thread(0) == -EOPNOTSUPP && dynprof_trace_thread(1) == -EOPNOTSUPP);
		return 0;
	}
	for (int round = 0; round < 3; round++) {
		for (long i = 0; i < THREADS; i++)
			CHECK(pthread_create(&t[i], 0, in_thread, (void *)i) == 0);
		for (int i = 0; i < THREADS; i++) {
			void *bad;
			CHECK(pthread_join(t[i], &bad) == 0 && !bad);
			for (int k = 0; k < (i % 2 ? 0 : ROUNDS); k++)
				expect(1, i, 1, "store");
			expect(1, 100 + i, 1, "store");
		}
	}
	CHECK(dynprof_trace_thread(0) == 0);
	store(table);
	fflush(expected);
	pid_t child = fork();
	if (child == 0) {
		store(table + 200);
		_exit(!state(DYNPROF_TRACE_IS_ON, 0));
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	expect(1, 200, 1, "store");
	return 0;
}

/* Before, in and behind the time for it: what was done while it was on in front and behind has to be
 * recorded, and while it was off is not. */
static int times(void)
{
	int was = 0, changes = 0, n = 0, on = 0, edges = 0;
	CHECK(memtr_regist(table, 251) == 0 && state(DYNPROF_TRACE_IS_OFF, DYNPROF_TRACE_BY_TIME));
	CHECK(dynprof_trace_on(0) == 0 && state(DYNPROF_TRACE_IS_OFF, DYNPROF_TRACE_BY_TIME));
	for (; changes < 2; n++) {
		store(table + n % 251);
		int64_t now = dynprof_trace_state();
		int is = DYNPROF_TRACE_STATE(now) != DYNPROF_TRACE_IS_OFF;
		CHECK(is || DYNPROF_TRACE_WHY(now) == DYNPROF_TRACE_BY_TIME);
		on += is && was, edges += is != was, changes += is != was, was = is;
		usleep(50);
	}
	fprintf(expected, "%d %d %d\n", n, on, edges);
	return 0;
}

/* Says between which times each access was made, and each mark. */
static unsigned long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (unsigned long long)t.tv_sec * 1000000000 + (unsigned long long)t.tv_nsec;
}

static int clocked(void)
{
	CHECK(memtr_regist(table, sizeof table) == 0);
	for (int i = 0; i < 60; i++) {
		unsigned long long before = now();
		if (i % 10 == 9)
			CHECK(dynprof_trace_mark("ten", (uint64_t)i) == 0);
		else
			store(table + i);
		fprintf(expected, "%llu %llu\n", before, now());
		usleep(i < 50 ? 2000 : 0);
	}
	return 0;
}

/* ---- what is known of regions ---- */

static void *some_stores(void *p)
{
	for (int i = 0; i < 100; i++)
		store(p);
	return 0;
}

static int infos(void)
{
	struct dynprof_region r = {.size = sizeof r};
	pthread_t t;
	int64_t a = dynprof_region_add(table, sizeof table, "a", 0), b = dynprof_region_add(apart, 64, "b", DYNPROF_REGION_STORE);
	CHECK(a == 1 && b == 2);
	CHECK(dynprof_region_info(a, &r) == 0 && r.accesses == 0 && r.first == 0 && r.last == 0 && r.threads == 0 && r.flags == 3 && r.address == (uint64_t)table && r.length == sizeof table && !r.removed);
	for (int i = 1; i <= 1000; i++) {
		three(0), three(40), store(apart), load(apart), load(apart + 7000);
		dynprof_trace_mark("round", (uint64_t)i); /* is no access */
		if (i % 100)
			continue;
		uint64_t n = (uint64_t)i;
		CHECK(dynprof_region_info(a, &r) == 0 && r.accesses == 6 * n && r.loads == 4 * n && r.stores == 4 * n && r.bytes == 14 * n && r.threads == 1 && r.first == 1 && r.last == 7 * n - 1);
		CHECK(dynprof_region_info(b, &r) == 0 && r.accesses == n && r.loads == 0 && r.stores == n && r.bytes == n && r.threads == 1 && r.first == 7 && r.last == 7 * n && r.flags == DYNPROF_REGION_STORE);
	}
	CHECK(pthread_create(&t, 0, some_stores, apart) == 0 && pthread_join(t, 0) == 0);
	CHECK(dynprof_region_remove(b) == 0);
	store(apart);
	CHECK(dynprof_region_info(b, &r) == 0 && r.stores == 1100 && r.threads == 2 && r.last == 7100 && r.removed == 1 && r.size == sizeof r);
	fprintf(expected, "%llu %llu\n", (unsigned long long)7100, 1000ULL);
	return 0;
}

/* ---- arguments that are none ---- */

static int hostile(void)
{
	unsigned char *hole = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(hole != MAP_FAILED && munmap(hole + 4096, 4096) == 0);
	const void *nowhere[] = {(void *)1, hole + 4096, hole + 4096 - 3, (void *)-4096L, (void *)0x800000000000L, (void *)0xdeadbeef00000000L};
	memset(hole, 'x', 4096);
	for (unsigned i = 0; i < sizeof nowhere / sizeof *nowhere; i++) {
		CHECK(dynprof_trace_mark(nowhere[i], 1) == -EFAULT);
		CHECK(dynprof_trace_on(nowhere[i]) == -EFAULT);
		CHECK(dynprof_region_info(1, (struct dynprof_region *)nowhere[i]) == -EFAULT);
		CHECK(dynprof_region_add(table, 1, nowhere[i], 0) == -EFAULT);
	}
	CHECK(dynprof_trace_mark(0, 1) == -EFAULT && dynprof_region_info(1, 0) == -EFAULT);
	struct dynprof_region r = {.size = sizeof r};
	static const int64_t none[] = {0, -1, 1, 2, 16383, 16384, INT64_MAX, INT64_MIN};
	for (unsigned i = 0; i < sizeof none / sizeof *none; i++)
		CHECK(dynprof_region_info(none[i], &r) == -ENOENT);
	int64_t made = dynprof_region_add(table, sizeof table, 0, 0);
	CHECK(made == 1 && dynprof_region_info(made, &r) == 0);
	r.size--;
	CHECK(dynprof_region_info(made, &r) == -EINVAL);
	struct dynprof_region *readable = (struct dynprof_region *)(hole + 8192);
	*readable = (struct dynprof_region){.size = sizeof r};
	CHECK(mprotect(hole + 8192, 4096, PROT_READ) == 0 && dynprof_region_info(made, readable) == -EFAULT);

	struct later { struct dynprof_trace_options o; char more[100]; } later = {.o.size = sizeof later};
	CHECK(dynprof_trace_on(&later.o) == 0);
	later.more[99] = 1;
	CHECK(dynprof_trace_on(&later.o) == -E2BIG);
	later.o.size = 1u << 31;
	CHECK(dynprof_trace_on(&later.o) == -E2BIG);
	struct dynprof_trace_options *last = (struct dynprof_trace_options *)(hole + 4096) - 1;
	*last = (struct dynprof_trace_options){.size = sizeof *last};
	CHECK(dynprof_trace_on(last) == 0);
	last->size += 8;
	CHECK(dynprof_trace_on(last) == -EFAULT);
	static const struct { struct dynprof_trace_options o; int is; } all[] = {
		{{.size = 4}, -EINVAL}, {{.modes = DYNPROF_TRACE_STREAM}, -ENOTSUP}, {{.modes = DYNPROF_TRACE_CALLS | DYNPROF_TRACE_REGIONS}, -ENOTSUP},
		{{.modes = DYNPROF_TRACE_SYSCALLS}, -ENOTSUP}, {{.modes = DYNPROF_TRACE_HEAT}, -ENOTSUP}, {{.modes = 32}, -EINVAL}, {{.kinds = DYNPROF_TRACE_FETCH}, -ENOTSUP},
		{{.kinds = DYNPROF_TRACE_PREFETCH}, -ENOTSUP}, {{.kinds = 16}, -EINVAL}, {{.when_full = DYNPROF_TRACE_OVERWRITE}, -ENOTSUP}, {{.when_full = DYNPROF_TRACE_STOP}, -ENOTSUP},
		{{.when_full = 3}, -EINVAL}, {{.slice = 1}, -ENOTSUP}, {{.for_instructions = 1}, -ENOTSUP}, {{.path = "x"}, -ENOTSUP}, {{.objects = "x"}, -ENOTSUP},
	};
	CHECK(dynprof_trace_off() == 0);
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
		struct dynprof_trace_options o = all[i].o;
		o.size = o.size ? o.size : sizeof o;
		CHECK(dynprof_trace_on(&o) == all[i].is && state(DYNPROF_TRACE_IS_OFF, DYNPROF_TRACE_BY_PROGRAM));
	}
	CHECK(dynprof_trace_thread(2) == -EINVAL && dynprof_trace_thread(-1) == -EINVAL);
	return 0;
}

/* Nothing is recorded, or something else is. */
static int without(int64_t is, int off)
{
	struct dynprof_region r = {.size = sizeof r};
	CHECK(dynprof_trace_state() == is && dynprof_trace_on(0) == off && dynprof_trace_off() == off && dynprof_region_info(1, &r) == DYNPROF_OFF);
	CHECK(dynprof_trace_thread(0) == (is < 0 ? DYNPROF_OFF : -EOPNOTSUPP) && dynprof_trace_mark("x", 1) == (is < 0 ? DYNPROF_OFF : -ENOTSUP) && dynprof_trace_flush() == (is < 0 ? DYNPROF_OFF : 0));
	return 0;
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[2] : "";
	int done = 2;
	if (argc < 3 || !(expected = fopen(argv[1], "w")))
		return 2;
	if (!strcmp(how, "marks"))
		done = marks();
	else if (!strcmp(how, "many"))
		done = many();
	else if (!strcmp(how, "windows"))
		done = windows();
	else if (!strcmp(how, "threads"))
		done = threads(argc > 3);
	else if (!strcmp(how, "times"))
		done = times();
	else if (!strcmp(how, "clocked"))
		done = clocked();
	else if (!strcmp(how, "infos"))
		done = infos();
	else if (!strcmp(how, "hostile"))
		done = hostile();
	else if (!strcmp(how, "without"))
		done = without(DYNPROF_OFF, DYNPROF_OFF);
	else if (!strcmp(how, "heat"))
		done = without(DYNPROF_TRACE_IS_ON, -EOPNOTSUPP);
	else if (!strcmp(how, "controlled"))
		done = without(DYNPROF_TRACE_IS_ON, 0);
	fclose(expected);
	return done;
}
