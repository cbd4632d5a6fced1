/* lateblocks HOW ROUNDS LIB [ANOTHER]: opens the library, works in it in threads, closes it,
 * three times; once more in a forked child; and in the end in the parent. How: "all"; "alone",
 * where the first thread works in it once;
 * "killed", where a thread opens and closes another library meanwhile, and the program kills
 * itself; "full", where ANOTHER is the program's table, which gets room for no more blocks
 * before: their section is told at OFFSET, the next argument. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, TIMES = 3 };

static unsigned rounds;
static unsigned (*work)(unsigned);

static void *work_in_thread(void *unused)
{
	(void)unused;
	return (void *)(uintptr_t)work(rounds);
}

static void *open_it(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	if (!library) {
		puts(dlerror());
		exit(2);
	}
	return library;
}

static unsigned once(const char *path)
{
	pthread_t threads[THREADS];
	void *library = open_it(path);
	unsigned sum = 0;
	work = (unsigned (*)(unsigned))dlsym(library, "late_work");
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], 0, work_in_thread, 0);
	for (int i = 0; i < THREADS; i++) {
		void *result;
		pthread_join(threads[i], &result);
		sum += (unsigned)(uintptr_t)result;
	}
	sum += work(rounds);
	dlclose(library);
	return sum;
}

static atomic_int is_forking;

static void *reopen(void *path)
{
	while (!is_forking)
		dlclose(open_it(path));
	return 0;
}

/* Nothing fits into the section any more. */
static void fill(const char *table, long at)
{
	enum { COUNT = 8, CAPACITY = 12 };
	int fd = open(table, O_RDWR);
	uint32_t count;
	if (pread(fd, &count, sizeof count, at + COUNT) != sizeof count || pwrite(fd, &count, sizeof count, at + CAPACITY) != sizeof count)
		exit(3);
	close(fd);
}

int main(int argc, char **argv)
{
	unsigned sum = 0;
	int is_killed = !strcmp(argv[1], "killed");
	pthread_t another;
	if (argc < 4)
		return 1;
	rounds = (unsigned)atoi(argv[2]);
	if (!strcmp(argv[1], "alone")) {
		work = (unsigned (*)(unsigned))dlsym(open_it(argv[3]), "late_work");
		printf("%u\n", work(rounds));
		return 0;
	}
	if (argc > 5 && access(argv[4], W_OK) == 0)
		fill(argv[4], strtol(argv[5], 0, 0));
	if (is_killed)
		pthread_create(&another, 0, reopen, argv[4]);
	for (int i = 0; i < TIMES; i++)
		sum += once(argv[3]);
	/* A child of a thread beside one that loads hangs in its first dlopen now and then:
	 * glibc 2.36 leaves it dl_load_write_lock as it was. */
	is_forking = 1;
	if (is_killed)
		pthread_join(another, 0);
	pid_t child = fork();
	int status;
	if (child == 0) {
		printf("%u\n", once(argv[3]));
		fflush(stdout);
		_exit(0);
	}
	is_forking = 0;
	if (is_killed)
		pthread_create(&another, 0, reopen, argv[4]);
	if (waitpid(child, &status, 0) != child || status)
		return 4;
	printf("%u\n", sum + once(argv[3]));
	fflush(stdout);
	if (is_killed)
		kill(getpid(), SIGKILL);
	return 0;
}
