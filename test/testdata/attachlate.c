/* A program that is attached to, and loads libraries then (latelib.c). Commands on stdin, each
 * answered by "done":
 *
 *	load PATH N     loads it, calls late_work(N), which calls late_step N times, closes it
 *	keep PATH N     the same, but does not close it
 *	call _ N        late_work(N) of what was kept last
 *	fork PATH N     the same as load, in a child
 *	threads PATH N  the same as load in four threads, while others call busy, and fork
 *	code _ N        maps N bytes of code of no file
 *	end
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[4096];
static int times, stop;
static void *kept;

__attribute__((noinline)) static long busy(long n) { return n ^ n >> 3; }

static void call(void *handle)
{
	((int (*)(int))dlsym(handle, "late_work"))(times);
}

static void *load(void *unused)
{
	void *handle = dlopen(path, RTLD_NOW);
	if (!handle) {
		puts(dlerror());
		exit(1);
	}
	call(handle);
	dlclose(handle);
	return unused;
}

static void *work(void *forks)
{
	long n = 1;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (int i = 0; i < 1000; i++)
			n += busy(n);
		if (!forks)
			continue;
		pid_t child = fork();
		if (!child)
			_exit(0);
		waitpid(child, 0, 0);
	}
	return (void *)n;
}

static void threads(void)
{
	pthread_t loader[4], worker[2];
	stop = 0;
	for (long i = 0; i < 2; i++)
		pthread_create(&worker[i], 0, work, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_create(&loader[i], 0, load, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(loader[i], 0);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(worker[i], 0);
}

int main(void)
{
	char what[16];
	setvbuf(stdout, 0, _IOLBF, 0);
	puts("ready");
	while (scanf("%15s", what) == 1 && strcmp(what, "end") && scanf("%4095s %d", path, &times) == 2) {
		if (!strcmp(what, "load")) {
			load(0);
		} else if (!strcmp(what, "keep")) {
			kept = dlopen(path, RTLD_NOW);
			call(kept);
		} else if (!strcmp(what, "call")) {
			call(kept);
		} else if (!strcmp(what, "code")) {
			mmap(0, (size_t)times, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		} else if (!strcmp(what, "threads")) {
			threads();
		} else if (!strcmp(what, "fork")) {
			pid_t child = fork();
			if (!child) {
				load(0);
				_exit(0);
			}
			waitpid(child, 0, 0);
		}
		puts("done");
	}
	return 0;
}
