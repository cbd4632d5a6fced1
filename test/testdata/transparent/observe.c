/* observe SUBCOMMAND ARGS: a program that prints what it can tell about itself,
 * or does what programs under a profiler are known to break at. All output is
 * the same in every run, but for what the profiler changes. */
#include "observe.h"

#include <pthread.h>

volatile int sink;

__attribute__((noinline, noclone)) void step(void)
{
	sink++;
}

void work(void)
{
	for (int i = 0; i < STEPS; i++)
		step();
}

void say(const char *what, long result)
{
	if (result == -1)
		printf("%s: -1 errno %d\n", what, errno);
	else
		printf("%s: %ld\n", what, result);
	fflush(stdout);
}

int await(pid_t pid)
{
	int status = 0;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void *thread(void *arg)
{
	work();
	return arg;
}

void one_thread(void)
{
	pthread_t t;
	int r = pthread_create(&t, 0, thread, 0);
	say("thread", r);
	if (r == 0)
		pthread_join(t, 0);
}

void one_child(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		work();
		_exit(7);
	}
	say("child", pid < 0 ? -1 : await(pid));
}

int main(int argc, char **argv)
{
	/* stdout asks for no memory and no system call but write. */
	static char buffer[BUFSIZ];
	setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
	const struct command *lists[] = {sees, does, sandboxes, runs, wraps};
	for (unsigned i = 0; argc > 1 && i < sizeof lists / sizeof *lists; i++)
		for (const struct command *c = lists[i]; c->name; c++)
			if (strcmp(c->name, argv[1]) == 0) {
				if (lists[i] != wraps)
					work();
				return c->run(argc - 1, argv + 1);
			}
	fprintf(stderr, "observe: no such subcommand\n");
	return 2;
}
