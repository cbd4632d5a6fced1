/* One function of one instruction and a return: leaf SIZE [THREADS].
 * Each of the threads, on a CPU of its own, makes SIZE * 1000 calls. */
#define _GNU_SOURCE
#include "workload.h"
#include <pthread.h>
#include <sched.h>

APART leaf(long x) {
	KEEP(x);
	return x + 1;
}

static long calls;
static cpu_set_t allowed;

/* Pins the calling thread to the nth CPU that the program may use. */
static void pin(long n) {
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed) && n-- == 0) {
			cpu_set_t one;
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			sched_setaffinity(0, sizeof one, &one);
		}
}

static void *work(void *number) {
	begin_thread();
	pin((long)number);
	long x = 0;
	for (long i = 0; i < calls; i++)
		x = leaf(x);
	return (void *)x;
}

int main(int argc, char **argv) {
	calls = size(argc, argv) * 1000;
	long threads = argc > 2 ? atol(argv[2]) : 1, sum = 0;
	sched_getaffinity(0, sizeof allowed, &allowed);
	pthread_t others[64];
	for (long i = 1; i < threads && i < 64; i++)
		pthread_create(&others[i], NULL, work, (void *)i);
	sum += (long)work((void *)0);
	for (long i = 1; i < threads && i < 64; i++) {
		void *x;
		pthread_join(others[i], &x);
		sum += (long)x;
	}
	printf("%ld\n", sum);
}
