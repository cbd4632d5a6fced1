/* Functions of which each call executes as many instructions as any other, called by main,
 * or by threads on cores of their own in two processes, or by threads while main pauses and
 * resumes the counting; or by threads in two processes until some calls have been observed, or
 * until others have not been any more after that. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dynprof.h"
#include "pin.h"

#define OWN __attribute__((noipa))

enum { THREADS = 4, PAUSES = 40, OWN_CALLS = 100 };

OWN int leaf(int x)
{
	for (volatile int i = 0; i < 7; i++)
		x += i;
	return x;
}

OWN int pointed(int x) { return leaf(x) + 1; }

OWN int middle(int x)
{
	int (*volatile f)(int) = pointed;
	for (volatile int i = 0; i < 3; i++)
		x = leaf(x);
	return f(x) + leaf(x);
}

/* A jump table. */
OWN int jumps(int x)
{
	volatile int y = x;
	switch (x & 7) {
	case 0: y = 11; break;
	case 1: y = 27; break;
	case 2: y = 33; break;
	case 3: y = 41; break;
	case 4: y = 59; break;
	case 5: y = 60; break;
	case 6: y = 71; break;
	default: y = 85; break;
	}
	return y + x;
}

OWN int deep(int x) { return x <= 0 ? leaf(x) : deep(x - 1) + 1; }

OWN int alone(int x) { return leaf(x) - 1; } /* by main only */

static int calls;
static pthread_barrier_t begin;

static int work(void)
{
	int sum = 0;
	for (int i = 0; i < calls; i++)
		sum += middle(i) + jumps(i);
	return sum + deep(20);
}

static void *thread(void *n)
{
	pin((int)(long)n);
	pthread_barrier_wait(&begin);
	return (void *)(long)work();
}

static void start(pthread_t *threads)
{
	pthread_barrier_init(&begin, 0, THREADS + 1);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], 0, thread, (void *)i);
	pthread_barrier_wait(&begin);
}

static void finish(pthread_t *threads, int want)
{
	for (int i = 0; i < THREADS; i++) {
		void *sum;
		pthread_join(threads[i], &sum);
		if ((int)(long)sum != want)
			printf("thread %d has %d, not %d\n", i, (int)(long)sum, want);
	}
}

/* What both processes share. */
static struct {
	int stop;
	long rounds;
} *both;

static void *until(void *unused)
{
	long rounds = 0;
	volatile unsigned sum = 0;
	while (!__atomic_load_n(&both->stop, __ATOMIC_RELAXED))
		for (int i = 0; i < calls; i++, rounds++)
			sum += (unsigned)(middle((int)rounds) + jumps((int)rounds));
	__atomic_fetch_add(&both->rounds, rounds, __ATOMIC_SEQ_CST);
	return unused;
}

/* How many calls of leaf were observed, which begin in its first block. */
static long observed(int64_t function)
{
	struct dynprof_block blocks[16];
	return dynprof_blocks(function, blocks, sizeof *blocks, 16) > 0 ? (long)blocks[0].runs : -1;
}

/* Waits until calls of leaf are observed, and then, if wanted, are not. */
static void await_turns(int off)
{
	enum { PATIENCE = 60 };
	int64_t function = dynprof_find(0, "leaf");
	struct timespec tick = {0, 1000 * 1000};
	time_t end = time(0) + PATIENCE;
	for (long last = 0, before = 0; time(0) < end;) {
		nanosleep(&tick, 0);
		long now = observed(function), all = (long)dynprof_calls_of(function);
		if (now > 0 && (!off || (now == last && all > before)))
			return;
		last = now;
		before = all;
	}
	printf("%ld of %ld calls were observed\n", observed(function), (long)dynprof_calls_of(function));
}

static void turns(int off)
{
	pthread_t threads[THREADS];
	both = mmap(0, sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child = fork();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], 0, until, 0);
	if (child != 0) {
		await_turns(off);
		__atomic_store_n(&both->stop, 1, __ATOMIC_RELAXED);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], 0);
	if (child == 0)
		_exit(0);
	waitpid(child, 0, 0);
	if (dynprof_calls(0, "middle") != both->rounds)
		printf("middle has %ld calls, not %ld\n", (long)dynprof_calls(0, "middle"), both->rounds);
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	if (argc != 3)
		return 2;
	calls = atoi(argv[2]);
	if (!strcmp(argv[1], "main")) {
		printf("%d %d\n", work(), alone(1));
		return 0;
	}
	if (!strcmp(argv[1], "threads")) {
		pid_t child = fork();
		start(threads);
		finish(threads, work());
		if (child == 0)
			return 0;
		waitpid(child, 0, 0);
		return 0;
	}
	if (!strcmp(argv[1], "observed") || !strcmp(argv[1], "turns")) {
		turns(!strcmp(argv[1], "turns"));
		return 0;
	}
	start(threads);
	for (int i = 0, sum = 0; i < PAUSES; i++) {
		for (int k = 0; k < OWN_CALLS; k++)
			sum += alone(k);
		if (dynprof_pause() < 0)
			printf("pause\n");
		for (int k = 0; k < 2 * OWN_CALLS; k++)
			sum += alone(k);
		if (dynprof_resume() < 0)
			printf("resume\n");
	}
	finish(threads, work());
	return 0;
}
