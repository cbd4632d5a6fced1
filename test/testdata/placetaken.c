// Maps memory where a program at a fixed address knows that there is none: all below
// it. placetaken HOW; step is called 1,000 times before, and as often after.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS = 1000, THREADS = 3 };
static const unsigned long low = 0x10000, high = 0x400000;
static volatile long sum;
static volatile int stop;

__attribute__((noipa)) long other(long n) { return n * 3 + sum; }
__attribute__((noipa)) void step(void) { sum += other(sum) & 1; }

static void steps(void)
{
	for (int i = 0; i < CALLS; i++)
		step();
}

static void *spins(void *arg)
{
	while (!stop)
		other(1);
	return arg;
}

/* What is mapped there stays as it was written. */
static int take(int flags)
{
	unsigned char *p = mmap((void *)low, high - low, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
	int changed = 0;
	if (p == MAP_FAILED) {
		printf("not mapped: %s\n", strerror(errno));
		return 0;
	}
	memset(p, 0xcc, high - low);
	steps();
	for (unsigned long i = 0; i < high - low; i++)
		changed += p[i] != 0xcc;
	printf("mapped, %d bytes changed\n", changed);
	return 1;
}

static void moves(void)
{
	void *p = mmap(0, high - low, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	printf("moved: %d\n", mremap(p, high - low, high - low, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)low) == (void *)low);
	steps();
}

static void forks(void)
{
	int status, pid = fork();
	if (!pid)
		_exit(take(MAP_FIXED) ? 7 : 1);
	waitpid(pid, &status, 0);
	printf("child: %d\n", WEXITSTATUS(status));
	steps();
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	pthread_t t[THREADS];
	int threads = strcmp(how, "threads") ? 0 : THREADS;
	steps();
	for (int i = 0; i < threads; i++)
		pthread_create(&t[i], 0, spins, 0);
	if (!strcmp(how, "fork"))
		forks();
	else if (!strcmp(how, "move"))
		moves();
	else if (!strcmp(how, "unmap"))
		printf("unmapped: %d\n", munmap((void *)low, high - low)), steps();
	else
		take(strcmp(how, "free") ? MAP_FIXED : MAP_FIXED_NOREPLACE);
	stop = 1;
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], 0);
	steps();
	return 3;
}
