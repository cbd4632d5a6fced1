/* What a crossing costs, and how soon new code runs: thousands of functions, each
 * of which crosses its threshold once. Prints lines "what ns". The argument is the
 * mode; without the library nothing crosses, and all is as a call costs. */
#define _GNU_SOURCE
#include <dynprof.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { THRESHOLD = 8, BATCH = 256 };

#define F(n) __attribute__((noinline, noclone, no_icf)) static long f##n(long x) { __asm__ volatile("" : "+r"(x)); return x * 3 + 1; }
#define F4(n) F(n##0) F(n##1) F(n##2) F(n##3)
#define F16(n) F4(n##0) F4(n##1) F4(n##2) F4(n##3)
#define F64(n) F16(n##0) F16(n##1) F16(n##2) F16(n##3)
#define F256(n) F64(n##0) F64(n##1) F64(n##2) F64(n##3)
#define F1024(n) F256(n##0) F256(n##1) F256(n##2) F256(n##3)
#define ALL F1024(_0) F1024(_1) F1024(_2) F1024(_3)
ALL
#undef F
#define F(n) f##n,
static long (*const functions[])(long) = {ALL};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static double ns_per_tick;
static volatile uint64_t entered; /* when the last callback began */
static volatile int told;
static int redirects;

/* All before is done, and nothing behind has begun. */
static inline uint64_t ticks(void)
{
	_mm_lfence();
	uint64_t t = __rdtsc();
	_mm_lfence();
	return t;
}

static uint64_t clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void calibrate(void)
{
	uint64_t a = ticks(), from = clock_ns();
	while (clock_ns() - from < 50000000)
		;
	ns_per_tick = (double)(clock_ns() - from) / (double)(ticks() - a);
}

/* The new code: says when it ran. */
static long new_code(long x) { return x < 0 ? x : (long)ticks(); }

static void hot(const struct dynprof_event *e, void *user)
{
	entered = ticks();
	(void)user;
	if (redirects && !strncmp(e->name, "f_", 2))
		dynprof_redirect(e->function, (const void *)new_code, 1);
	told++;
}

static void report(const char *what, uint64_t from, uint64_t to) { printf("%s %.1f\n", what, (double)(to - from) * ns_per_tick); }

static struct { uint64_t from, to, entered; long result; } made[FUNCTIONS];

static void call(int i)
{
	made[i].from = ticks();
	made[i].result = functions[i](1);
	made[i].to = ticks();
	made[i].entered = entered;
}

/* A sweep over n functions; pause is in microseconds, before each call. */
static void sweep(int first, int n, int pause)
{
	for (int i = first; i < first + n; i++) {
		if (pause)
			usleep((unsigned)pause);
		call(i);
	}
}

/* Functions from first on, which have been called THRESHOLD - 2 times. */
static void batch(const char *mode, int first, int n)
{
	int pause = !strcmp(mode, "alone") ? 200 : !strcmp(mode, "asleep") ? 30000 : 0;
	int asynchronous = pause || !strcmp(mode, "burst");
	sweep(first, n, pause);
	for (int i = first; i < first + n; i++)
		report("call", made[i].from, made[i].to);
	int before = told;
	sweep(first, n, pause);
	for (int i = first; i < first + n; i++) {
		report("crossing", made[i].from, made[i].to);
		if (!strcmp(mode, "synchronous"))
			report("entry", made[i].from, made[i].entered);
	}
	for (int wait = 0; asynchronous && dynprof_active() && told - before < n && wait < 5000; wait++)
		usleep(1000);
}

/* From the crossing to the first call that runs new code. */
static void until_redirected(int first, int n)
{
	for (int i = first; i < first + n; i++) {
		functions[i](1);
		uint64_t from = ticks();
		long result;
		while ((result = functions[i](1)) == 4)
			;
		report("redirected", from, (uint64_t)result);
		usleep(200);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "burst";
	int sync = !strncmp(mode, "synchronous", 11), n = !strcmp(mode, "alone") ? 512 : !strcmp(mode, "asleep") ? 32 : 2048;
	redirects = strstr(mode, "redirect") != 0;
	calibrate();
	if (strcmp(mode, "recorded") && dynprof_register_translator(hot, THRESHOLD, sync, 0) < 0 && dynprof_active()) {
		fputs("no translator\n", stderr);
		return 1;
	}
	if (!dynprof_active())
		redirects = 0;
	for (int k = 0; k < THRESHOLD - 2; k++)
		for (int i = 0; i < n; i++)
			functions[i](1);
	if (redirects)
		until_redirected(0, 512);
	else
		for (int i = 0; i < n; i += BATCH)
			batch(mode, i, n < BATCH ? n : BATCH);
	return 0;
}
