/* Calls a function in a loop, by threads pinned to different cores, and prints
 * the CPU time of a call, ns, of the slowest: argv[1] threads, argv[2] calls of
 * each, argv[3] the function. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 64 };

static long calls;
static pthread_barrier_t start;
static double took[MOST];

__attribute__((noinline, noclone)) static long plain(long x)
{
	__asm__ volatile("");
	return x + 1;
}

/* What a counter for all threads costs. */
static long total __attribute__((aligned(64)));
__attribute__((noinline, noclone)) static long locked(long x)
{
	__asm__ volatile("lock incq %0" : "+m"(total));
	return x + 1;
}

static long (*function)(long);

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *run(void *arg)
{
	long n = (long)arg, x = 0;
	long (*f)(long) = function;
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(n, &one);
	if (sched_setaffinity(0, sizeof one, &one) != 0)
		exit(3);
	pthread_barrier_wait(&start);
	double from = now();
	for (long i = 0; i < calls; i++)
		x = f(x);
	took[n] = (now() - from) / (double)calls;
	return (void *)x;
}

int main(int argc, char **argv)
{
	long threads = argc > 3 ? atol(argv[1]) : 0;
	pthread_t t[MOST];
	if (threads < 1 || threads > MOST)
		return 2;
	calls = atol(argv[2]);
	function = strcmp(argv[3], "locked") ? plain : locked;
	pthread_barrier_init(&start, 0, (unsigned)threads);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&t[i], 0, run, (void *)i) != 0)
			return 3;
	double most = 0;
	for (long i = 0; i < threads; i++) {
		pthread_join(t[i], 0);
		if (took[i] > most)
			most = took[i];
	}
	printf("%.4f\n", most);
	return 0;
}
