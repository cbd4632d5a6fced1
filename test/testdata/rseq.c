/* Threads on one CPU add to one counter by restartable sequences (rseq.S). No
 * addition is lost as long as the kernel restarts those that it interrupts. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/rseq.h>

typedef int add_function(uint64_t offset, volatile long *counter, const void *descriptor);
add_function rseq_small, rseq_window, rseq_behind, rseq_head, rseq_far;
extern const char window_cs[], behind_cs[];

static const struct kind {
	const char *name;
	add_function *add;
	const void *descriptor;
} kinds[] = {
	{"small", rseq_small, 0}, {"window", rseq_window, window_cs}, {"behind", rseq_behind, behind_cs},
	{"head", rseq_head, 0}, {"far", rseq_far, 0},
};

enum { THREADS = 3, TIMES = 60000, ROUNDS = 20 };

static volatile long counter;
static long tries;

static void *adds(void *arg)
{
	const struct kind *k = arg;
	uint64_t offset = (uint64_t)__rseq_offset + offsetof(struct rseq, rseq_cs);
	long tried = 0;
	for (int i = 0; i < TIMES; i++)
		do
			tried++;
		while (!k->add(offset, &counter, k->descriptor));
	__atomic_fetch_add(&tries, tried, __ATOMIC_RELAXED);
	return 0;
}

int main(void)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (!__rseq_size || sched_setaffinity(0, sizeof one, &one))
		return 77;
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		long rounds = 0;
		counter = tries = 0;
		do { /* until one has been interrupted */
			pthread_t threads[THREADS];
			rounds++;
			for (int k = 0; k < THREADS; k++)
				pthread_create(&threads[k], 0, adds, (void *)&kinds[i]);
			for (int k = 0; k < THREADS; k++)
				pthread_join(threads[k], 0);
		} while (rounds < ROUNDS && tries == rounds * THREADS * TIMES);
		printf("%s: %ld lost, %s, tries %ld\n", kinds[i].name, rounds * THREADS * TIMES - counter,
		       tries > rounds * THREADS * TIMES ? "interrupted" : "not interrupted", tries);
	}
	return 0;
}
