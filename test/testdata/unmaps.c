// Takes away all memory that is mapped shared: it has mapped none, so it knows none of it.
// unmaps HOW [others]: step is called 1,000 times before, and as often after, by others
// all the time.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 400, CALLS = 1000, THREADS = 3 };
static struct {
	unsigned long low, high;
} ranges[MOST];
static volatile long sum;
static volatile int stop;

__attribute__((noipa)) void other(void) { __asm__ volatile(""); }
__attribute__((noipa)) void step(void) { sum += 1; }

static void steps(void)
{
	for (int i = 0; i < CALLS; i++)
		step();
}

static void *spins(void *arg)
{
	while (!stop)
		other();
	return arg;
}

static int find(void)
{
	char line[600], mode[8];
	int n = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && n < MOST && fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx %7s", &ranges[n].low, &ranges[n].high, mode) == 3 && mode[3] == 's')
			n++;
	if (maps)
		fclose(maps);
	return n;
}

/* By a call for each, or none. */
static int take(const char *how, void *at, unsigned long size)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	if (!strcmp(how, "unmap"))
		return munmap(at, size) == 0;
	if (!strcmp(how, "over"))
		return mmap(at, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0) == at;
	void *to = mmap(0, size, PROT_NONE, flags | MAP_NORESERVE, -1, 0);
	return mremap(at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to;
}

/* What is there then stays as it is: nobody counts in it. */
static int changed(const unsigned char *at, unsigned long size)
{
	int n = 0;
	for (unsigned long i = 0; i < size; i++)
		n += at[i] != 0;
	return n;
}

static void takes(const char *how)
{
	int n = find(), failed = 0, bytes = 0;
	for (int i = 0; i < n; i++)
		failed += !take(how, (void *)ranges[i].low, ranges[i].high - ranges[i].low);
	steps();
	for (int i = 0; i < n && !strcmp(how, "over"); i++)
		bytes += changed((unsigned char *)ranges[i].low, ranges[i].high - ranges[i].low);
	printf("%d could not be taken, %d bytes changed\n", failed, bytes);
}

static void forks(const char *how)
{
	int status, pid = fork();
	if (!pid) {
		takes(how);
		fflush(stdout);
		_exit(7);
	}
	waitpid(pid, &status, 0);
	printf("child: %d\n", WEXITSTATUS(status));
	steps();
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "unmap", *who = argc > 2 ? argv[2] : "";
	pthread_t t[THREADS];
	int threads = strcmp(who, "threads") ? 0 : THREADS;
	steps();
	for (int i = 0; i < threads; i++)
		pthread_create(&t[i], 0, spins, 0);
	if (strcmp(who, "child"))
		takes(how);
	else
		forks(how);
	stop = 1;
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], 0);
	steps();
	pthread_create(&t[0], 0, spins, 0);
	pthread_join(t[0], 0);
	return 3;
}
