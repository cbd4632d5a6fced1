/* A server whose children limit their address space, each to less than what all of them have of rows, and
 * live at the same time. Each says what it is told of its limit, and whether it finds memory, beside a thread
 * and a child of its own. With an argument it is told on stdin what to do. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 60, MB = 1 << 20, LIMIT = 200 * MB };

#define ALONE __attribute__((noinline, noclone))

ALONE static int finds(unsigned long bytes)
{
	volatile char *p = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return 0;
	p[bytes - 1] = 1;
	return munmap((void *)p, bytes) == 0;
}

static void *thread(void *p)
{
	*(int *)p = finds(MB);
	return 0;
}

ALONE static int session(void)
{
	struct rlimit l = {LIMIT, LIMIT}, is = {0, 0};
	pthread_t t;
	int in_thread = 0, status = 0;
	if (setrlimit(RLIMIT_AS, &l) || getrlimit(RLIMIT_AS, &is) || is.rlim_cur != LIMIT || is.rlim_max != LIMIT)
		return 1;
	if (!finds(32 * MB) || finds(LIMIT))
		return 2;
	if (pthread_create(&t, 0, thread, &in_thread) || pthread_join(t, 0) || !in_thread)
		return 3;
	pid_t child = fork();
	if (!child)
		_exit(getrlimit(RLIMIT_AS, &is) || is.rlim_cur != LIMIT || !finds(32 * MB) || finds(LIMIT));
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		return 4;
	return getrlimit(RLIMIT_AS, &is) || is.rlim_cur != LIMIT || is.rlim_max != LIMIT ? 5 : 0;
}

/* Children that are there at the same time: how many find what they should. */
static void children(void)
{
	int go[2], ends[8] = {0}, status;
	char c;
	if (pipe(go))
		exit(1);
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();
		if (!child) {
			close(go[1]);
			status = session();
			if (read(go[0], &c, 1))
				status = 6;
			_exit(status);
		}
		usleep(1000);
	}
	close(go[1]);
	for (int i = 0; i < CHILDREN; i++) {
		wait(&status);
		ends[WIFEXITED(status) ? WEXITSTATUS(status) & 7 : 7]++;
	}
	close(go[0]);
	printf("%d right", ends[0]);
	for (int i = 1; i < 8; i++)
		if (ends[i])
			printf(", %d: %d", i, ends[i]);
	puts("");
}

static void limit(int set)
{
	struct rlimit l = {400 * MB, 500 * MB};
	if (set && setrlimit(RLIMIT_AS, &l))
		perror("setrlimit");
	if (getrlimit(RLIMIT_AS, &l))
		perror("getrlimit");
	printf("%lu %lu, some %d, much %d\n", l.rlim_cur / MB, l.rlim_max / MB, finds(32 * MB), finds(400 * MB));
}

int main(int argc, char **argv)
{
	char line[32];
	setvbuf(stdout, 0, _IOLBF, 0);
	if (argc == 1) {
		children();
		return 0;
	}
	puts("ready");
	while (fgets(line, sizeof line, stdin) && strcmp(line, "end\n"))
		if (!strcmp(line, "children\n"))
			children();
		else
			limit(!strcmp(line, "limit\n"));
	return 0;
}
