/* Threads on different cores, at the same functions at the same time. The
 * first argument says what, the second how much, the third how many threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pin.h"
#include "tally.h"

enum { MOST_THREADS = 64, FUNCTIONS = 16 };

static long amount, threads = 4;
static pthread_barrier_t start;

/* Without a tally: one would make all others rarer, and their number is known. */
OWN static int hot(int x)
{
	__asm__ volatile("");
	return x + 1;
}

#define F(n) OWN static int many_##n(int x) { __asm__ volatile(""); return x * 5 + n; }
F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)
#undef F
#define F(n) many_##n,
static int (*const many[FUNCTIONS])(int) = {F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)};
#undef F

OWN static void *run_one(void *arg)
{
	ENTER;
	pin((int)(long)arg);
	pthread_barrier_wait(&start);
	int x = 0;
	for (long i = 0; i < amount; i++)
		x = hot(x);
	return (void *)(long)x;
}

OWN static void *run_many(void *arg)
{
	ENTER;
	pin((int)(long)arg);
	pthread_barrier_wait(&start);
	int x = 0;
	for (long i = 0; i < amount / FUNCTIONS * FUNCTIONS; i++)
		x = many[i % FUNCTIONS](x);
	return (void *)(long)x;
}

OWN static void together(void *(*f)(void *))
{
	ENTER;
	pthread_t t[MOST_THREADS];
	pthread_barrier_init(&start, 0, (unsigned)threads);
	for (long i = 0; i < threads; i++)
		pthread_create(&t[i], 0, f, (void *)i);
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], 0);
	pthread_barrier_destroy(&start);
}

OWN static int brief(int x)
{
	ENTER;
	return x + 1;
}

OWN static void *run_brief(void *arg)
{
	ENTER;
	pin((int)(long)arg);
	for (int i = 0; i < 5; i++)
		arg = (char *)arg + brief(i);
	return arg;
}

static long gone;
OWN static void *run_detached(void *arg)
{
	ENTER;
	brief((int)(long)arg);
	__atomic_fetch_add(&gone, 1, __ATOMIC_RELEASE);
	return 0;
}

/* Short threads, some joined, some not, beside two that always run. */
OWN static void churn(void)
{
	ENTER;
	pthread_t t[8];
	pthread_attr_t detached;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	long made = 0;
	for (long n = 0; n < amount; n += 10) {
		for (int i = 0; i < 8; i++)
			pthread_create(&t[i], 0, run_brief, (void *)(long)i);
		for (int i = 0; i < 2; i++) {
			pthread_t d;
			if (pthread_create(&d, &detached, run_detached, (void *)(long)i) == 0)
				made++;
		}
		for (int i = 0; i < 8; i++)
			pthread_join(t[i], 0);
	}
	while (__atomic_load_n(&gone, __ATOMIC_ACQUIRE) != made)
		sched_yield();
}

enum { CROWD = 300 };
OWN static void *run_crowd(void *arg)
{
	ENTER;
	pthread_barrier_wait(&start);
	for (long i = 0; i < amount; i++)
		brief((int)i);
	pthread_barrier_wait(&start);
	return arg;
}

/* Many that are there at the same time, on small stacks. */
OWN static void crowd(void)
{
	ENTER;
	static pthread_t t[CROWD];
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 16384);
	pthread_barrier_init(&start, 0, CROWD);
	for (int i = 0; i < CROWD; i++)
		if (pthread_create(&t[i], &small, run_crowd, 0) != 0)
			abort();
	for (int i = 0; i < CROWD; i++)
		pthread_join(t[i], 0);
	pthread_barrier_destroy(&start);
}

static int stop;
OWN static int stormed(int x)
{
	ENTER;
	return x + 1;
}
OWN static void on_signal(int sig)
{
	ENTER;
	for (int i = 0; i < 3; i++)
		stormed(sig);
}
OWN static void *run_stormed(void *arg)
{
	ENTER;
	pin((int)(long)arg);
	int x = 0;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		x = stormed(x);
	return (void *)(long)x;
}

/* Handlers that interrupt the functions they call, in the middle of a count. */
OWN static void storm(void)
{
	ENTER;
	pthread_t t[2];
	struct sigaction a;
	memset(&a, 0, sizeof a);
	a.sa_handler = on_signal;
	a.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &a, 0);
	for (long i = 0; i < 2; i++)
		pthread_create(&t[i], 0, run_stormed, (void *)i);
	for (long i = 0; i < amount; i++) {
		pthread_kill(t[i % 2], SIGUSR1);
		if (i % 16 == 0)
			sched_yield();
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], 0);
}

/* ---- all of it at once, for so many seconds ---- */

static long hot_calls, many_calls;
OWN static void *run_steady(void *arg)
{
	ENTER;
	pin((int)(long)arg);
	int x = 0;
	long rounds = 0;
	for (; !__atomic_load_n(&stop, __ATOMIC_RELAXED); rounds++)
		for (int i = 0; i < FUNCTIONS; i++)
			x = hot(many[i](x));
	__atomic_fetch_add(&hot_calls, rounds * FUNCTIONS, __ATOMIC_RELAXED);
	__atomic_fetch_add(&many_calls, rounds, __ATOMIC_RELAXED);
	return (void *)(long)x;
}
OWN static void *run_churner(void *arg)
{
	ENTER;
	pthread_t t[8];
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (int i = 0; i < 8; i++)
			pthread_create(&t[i], 0, run_brief, (void *)(long)i);
		for (int i = 0; i < 8; i++)
			pthread_join(t[i], 0);
		pid_t pid = fork();
		if (pid == 0) {
			brief(1);
			_exit(0);
		}
		while (waitpid(pid, 0, 0) < 0 && errno == EINTR)
			;
	}
	return arg;
}

OWN static void stress(void)
{
	ENTER;
	pthread_t steady[4], churners[2];
	struct timespec end, now, tick = {0, 1000000};
	signal(SIGUSR1, on_signal);
	for (long i = 0; i < 4; i++)
		pthread_create(&steady[i], 0, run_steady, (void *)i);
	for (long i = 0; i < 2; i++)
		pthread_create(&churners[i], 0, run_churner, 0);
	clock_gettime(CLOCK_MONOTONIC, &end);
	do {
		for (int i = 0; i < 4; i++)
			pthread_kill(steady[i], SIGUSR1);
		nanosleep(&tick, 0);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec + amount);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 4; i++)
		pthread_join(steady[i], 0);
	for (int i = 0; i < 2; i++)
		pthread_join(churners[i], 0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	amount = argc > 2 ? atol(argv[2]) : 0;
	threads = argc > 3 ? atol(argv[3]) : threads;
	long in_hot = 0, in_many = 0;
	if (threads > MOST_THREADS)
		return 2;
	if (!strcmp(what, "one")) {
		together(run_one);
		in_hot = threads * amount;
	} else if (!strcmp(what, "many")) {
		together(run_many);
		in_many = threads * (amount / FUNCTIONS);
	} else if (!strcmp(what, "churn")) {
		churn();
	} else if (!strcmp(what, "crowd")) {
		crowd();
	} else if (!strcmp(what, "storm")) {
		storm();
	} else if (!strcmp(what, "stress")) {
		stress();
		in_hot = hot_calls;
		in_many = many_calls;
	} else {
		return 2;
	}
	printf("calls hot %ld\n", in_hot);
	for (int i = 0; i < FUNCTIONS; i++)
		printf("calls many_%d %ld\n", i, in_many);
	return 0;
}
