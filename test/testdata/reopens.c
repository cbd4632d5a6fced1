/* reopens HOW TIMES LIB...: opens the libraries, works in each, and closes them, over and over,
 * says if there are more and more mappings, and pauses counting, where that can be. How: "alone"; "child", in a forked one; "beside",
 * as other threads map memory, make it executable, and are struck by signals. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 8, SLACK = 60 };

static volatile int over;
static volatile long struck;

static void on_alarm(int signal)
{
	(void)signal;
	struck++;
}

static void *beside(void *unused)
{
	while (!over) {
		char *at = mmap(0, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memcpy(at, "\xc3", 1); /* ret */
		mprotect(at, PAGE, PROT_READ | PROT_EXEC);
		((void (*)(void))at)();
		mprotect(at, PAGE, PROT_READ | PROT_WRITE);
		madvise(at, 16 * PAGE, MADV_DONTNEED);
		munmap(at, 16 * PAGE);
	}
	return unused;
}

static int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	int n = 0;
	for (int c; (c = getc(f)) != EOF;)
		n += c == '\n';
	fclose(f);
	return n;
}

static int work(char **names, int count)
{
	void *libraries[MOST];
	int sum = 0;
	for (int i = 0; i < count; i++) {
		libraries[i] = dlopen(names[i], RTLD_NOW);
		if (!libraries[i]) {
			puts(dlerror());
			exit(2);
		}
		sum += ((int (*)(int))dlsym(libraries[i], "late_work"))(3);
	}
	for (int i = 0; i < count; i++)
		dlclose(libraries[i]);
	return sum;
}

static int loop(int times, char **names, int count)
{
	long sum = 0;
	int before = 0;
	for (int i = 0; i < times; i++) {
		sum += work(names, count);
		if (i == times / 10)
			before = mappings();
	}
	int grown = mappings() - before;
	printf("%ld%s\n", sum, grown > SLACK ? ": mappings pile up" : "");
	int (*pause)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "dynprof_pause");
	int left = pause ? pause() : 0;
	if (left != 0 && left != -EOPNOTSUPP)
		puts("not all is paused");
	if (grown > SLACK)
		fprintf(stderr, "%d mappings more\n", grown);
	return 0;
}

int main(int argc, char **argv)
{
	enum { THREADS = 3 };
	pthread_t threads[THREADS];
	int is_beside = !strcmp(argv[1], "beside"), times = atoi(argv[2]);
	if (argc < 4 || argc > 3 + MOST)
		return 1;
	if (!strcmp(argv[1], "child")) {
		pid_t child = fork();
		int status = 0;
		if (child)
			return waitpid(child, &status, 0) != child || status;
	}
	if (is_beside) {
		struct itimerval often = {{0, 500}, {0, 500}};
		signal(SIGALRM, on_alarm);
		for (int i = 0; i < THREADS; i++)
			pthread_create(&threads[i], 0, beside, 0);
		setitimer(ITIMER_REAL, &often, 0);
	}
	loop(times, argv + 3, argc - 3);
	over = 1;
	for (int i = 0; is_beside && i < THREADS; i++)
		pthread_join(threads[i], 0);
	return 0;
}
