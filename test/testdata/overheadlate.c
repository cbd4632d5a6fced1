/* overheadlate LIB: opens the library, twice, and calls a function of it, in a thread, too, until
 * some calls have been observed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "dynprof.h"

static int (*work)(int);
static atomic_int stop;
static atomic_long calls;

static void *until(void *unused)
{
	long n = 0;
	for (volatile int sum = 0; !stop; n++)
		sum += work((int)n);
	calls += n;
	return unused;
}

static long observed(int64_t function)
{
	struct dynprof_block blocks[16];
	return dynprof_blocks(function, blocks, sizeof *blocks, 16) > 0 ? (long)blocks[0].runs : -1;
}

static void once(const char *path)
{
	enum { PATIENCE = 60 };
	struct timespec tick = {0, 1000 * 1000};
	pthread_t thread;
	void *library = dlopen(path, RTLD_NOW);
	if (!library) {
		puts(dlerror());
		return;
	}
	work = (int (*)(int))dlsym(library, "late_leaf");
	int64_t function = dynprof_find_address((const void *)work);
	stop = 0;
	calls = 0;
	pthread_create(&thread, 0, until, 0);
	for (time_t end = time(0) + PATIENCE; observed(function) <= 0 && time(0) < end;)
		nanosleep(&tick, 0);
	stop = 1;
	pthread_join(thread, 0);
	if (observed(function) <= 0)
		printf("%ld of %ld calls were observed\n", observed(function), calls);
	if ((long)dynprof_calls_of(function) != calls)
		printf("%ld calls, not %ld\n", (long)dynprof_calls_of(function), calls);
	dlclose(library);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	once(argv[1]);
	once(argv[1]);
}
