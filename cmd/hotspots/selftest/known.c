/* The program of hotspots selftest: how often each of its functions is called is known,
 * and said on stdout, "NAME CALLS" a line. It needs no file but libc. */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone, used))

enum { ROUNDS = 1000, THREADS = 4, DEPTH = 20 };

static volatile unsigned sink;

KEEP void known_small(void) { __asm__ volatile(""); } /* no call of it is left out */

KEEP void known_leaf(unsigned n) { sink += n; }

KEEP void known_loop(unsigned n) /* arrivals by its own jumps are no calls */
{
	do
		sink += n;
	while (n-- > 0);
}

KEEP unsigned known_recursion(unsigned depth) { return depth ? known_recursion(depth - 1) + sink : 1; }

KEEP void known_pointed(void) { sink++; }

static void (*volatile pointer)(void) = known_pointed;

KEEP void known_round(unsigned i)
{
	known_small();
	known_leaf(i);
	known_loop(i & 7);
	pointer();
}

KEEP void *known_thread(void *unused)
{
	for (unsigned i = 0; i < ROUNDS; i++)
		known_round(i);
	return unused;
}

int main(void)
{
	pthread_t threads[THREADS];
	unsigned made = 0, all;
	pid_t child;
	int status = 0;

	for (unsigned i = 0; i < THREADS; i++)
		made += pthread_create(&threads[made], 0, known_thread, 0) == 0;
	for (unsigned i = 0; i < made; i++)
		pthread_join(threads[i], 0);
	known_recursion(DEPTH);
	if (made != THREADS || (child = fork()) < 0)
		return 1;
	if (child == 0) {
		known_thread(0);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		return 1;
	all = (THREADS + 1) * ROUNDS;
	printf("known_small %u\nknown_leaf %u\nknown_loop %u\nknown_pointed %u\nknown_round %u\n"
	       "known_thread %u\nknown_recursion %u\nmain 1\n", all, all, all, all, all, THREADS + 1, DEPTH + 1);
	return 0;
}
