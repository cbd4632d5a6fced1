/* Loads libraries while it runs: again, from several threads while others work,
 * in a namespace of their own, in parent and child.
 *
 *	late once|threads|namespace|fork LIBRARY...
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int stop;
static int quiet; /* the order of lines would be chance */

__attribute__((noinline)) static long busy_step(long n) { return n ^ n >> 3; }

static void *use(void *handle, int n, int close)
{
	if (!handle) {
		puts(dlerror());
		exit(1);
	}
	int (*work)(int) = (int (*)(int))dlsym(handle, "late_work");
	int sum = work(n);
	if (!quiet)
		printf("work %d\n", sum);
	if (close)
		dlclose(handle);
	return handle;
}

static void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu % (int)sysconf(_SC_NPROCESSORS_ONLN), &set);
	sched_setaffinity(0, sizeof set, &set);
}

static void *busy(void *arg)
{
	long n = 0, *calls = arg;
	pin((int)*calls);
	*calls = 0;
	while (!stop) {
		n += busy_step(n);
		++*calls;
		if (*calls % 1000 == 0)
			free(malloc(100)); /* libc's locks are taken at any time */
	}
	return (void *)n;
}

static void *load(void *path)
{
	static int next;
	pin(__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED));
	for (int i = 0; i < 3; i++)
		use(dlopen(path, RTLD_NOW), 1000, 1);
	return 0;
}

static void threads(int n, char **paths)
{
	pthread_t loader[16], worker[2];
	long calls[2] = {0, 1}, total = 0;
	for (int i = 0; i < 2; i++)
		pthread_create(&worker[i], 0, busy, &calls[i]);
	for (int i = 0; i < n; i++)
		pthread_create(&loader[i], 0, load, paths[i]);
	for (int i = 0; i < n; i++)
		pthread_join(loader[i], 0);
	stop = 1;
	for (int i = 0; i < 2; i++) {
		pthread_join(worker[i], 0);
		total += calls[i];
	}
	fprintf(stderr, "calls busy_step %ld\n", total);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, 0, _IOLBF, 0);
	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], "once")) {
		use(dlopen(argv[2], RTLD_LAZY), 1000, 1);
		use(dlopen(argv[2], RTLD_NOW), 500, 0);
	} else if (!strcmp(argv[1], "threads")) {
		threads(argc - 2, argv + 2);
#ifdef LM_ID_NEWLM
	} else if (!strcmp(argv[1], "namespace")) {
		use(dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW), 300, 0);
		use(dlopen(argv[2], RTLD_NOW), 200, 0);
#endif
	} else if (!strcmp(argv[1], "fork")) {
		pid_t child = fork();
		quiet = !child;
		use(dlopen(argv[2], RTLD_NOW), child ? 100 : 250, !child);
		if (!child)
			_exit(0);
		waitpid(child, 0, 0);
		printf("children: %d\n", waitpid(-1, 0, 0));
	}
	return 0;
}
