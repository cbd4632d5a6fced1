/* Threads that call a function at the same time, which begins a region, and then change it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, ROUNDS = 1000 };

long own[THREADS][64];
static pthread_barrier_t start, called;

__attribute__((noinline)) void begin(volatile long *p) { *p = 1; }

static void *work(void *number)
{
	volatile long *mine = own[(long)number];
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET((long)number % 2, &one);
	pthread_setaffinity_np(pthread_self(), sizeof one, &one);
	pthread_barrier_wait(&start);
	begin(mine + 32);
	pthread_barrier_wait(&called);
	for (int i = 0; i < ROUNDS; i++)
		mine[i % 8]++;
	return 0;
}

int main(void)
{
	pthread_t all[THREADS];
	pthread_barrier_init(&start, 0, THREADS);
	pthread_barrier_init(&called, 0, THREADS);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&all[i], 0, work, (void *)i);
	for (long i = 0; i < THREADS; i++)
		pthread_join(all[i], 0);
	return 0;
}
