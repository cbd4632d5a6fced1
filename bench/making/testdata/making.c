/* Makes things, one after the other, and prints what each cost: the lower quartile of
 * the wall time of the last hundred, and the CPU time, in microseconds.
 *
 *	making load DIRECTORY N     libraries: DIRECTORY/0.so and so on
 *	making fork N               children that end at once
 *	making thread N             threads that are all there at the same time
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LAST = 100 };

static double last[LAST];
static pthread_barrier_t barrier;
static const char *directory;

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

static double cpu(void)
{
	struct rusage self, children;
	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &children);
	return seconds(self.ru_utime) + seconds(self.ru_stime) + seconds(children.ru_utime) + seconds(children.ru_stime);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int load(int i)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%d.so", directory, i);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL) != 0;
}

static int make_child(int i)
{
	int status;
	pid_t pid = fork();
	(void)i;
	if (pid == 0)
		_exit(7);
	return waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7;
}

static void *wait_there(void *arg)
{
	pthread_barrier_wait(&barrier);
	return arg;
}

static int make_thread(int i)
{
	static pthread_t all[100000];
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	return pthread_create(&all[i], &small, wait_there, 0) == 0;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int n = atoi(argv[argc - 1]), threads = strcmp(argv[1], "thread") == 0;
	int (*make)(int) = threads ? make_thread : strcmp(argv[1], "fork") == 0 ? make_child : load;
	directory = argv[2];
	pthread_barrier_init(&barrier, 0, (unsigned)n + 1);
	double before = cpu();
	for (int i = 0; i < n; i++) {
		double start = now();
		if (!make(i))
			return 1;
		last[i % LAST] = now() - start;
	}
	if (threads)
		pthread_barrier_wait(&barrier);
	double spent = cpu() - before;
	int timed = n < LAST ? n : LAST;
	qsort(last, (size_t)timed, sizeof *last, by_size);
	printf("%f %f\n", last[timed / 4] * 1e6, spent / n * 1e6);
	return 0;
}
