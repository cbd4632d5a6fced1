/* Forks, while other threads wait in system calls that an ignored signal does not end: says how
   many were interrupted. With "handler" there is a handler of SIGWINCH, which nobody sends,
   and libraries are loaded and closed while children end. With "ignored" SIGUSR1 is, by the
   program or its parent, and another process sends it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int waiting, interrupted;
static atomic_bool over;

static void *polls(void *arg)
{
	struct epoll_event event;
	int fd = epoll_create1(0);
	waiting++;
	while (!over)
		if (epoll_wait(fd, &event, 1, 20) < 0 && errno == EINTR)
			interrupted++;
	return arg;
}

static void handler(int sig) { (void)sig; }

int main(int argc, char **argv)
{
	pthread_t threads[4];
	int handles = argc > 1 && !strcmp(argv[1], "handler"), ignores = argc > 1 && !handles;
	pid_t sender = 0, me = getpid();
	if (handles)
		signal(SIGWINCH, handler);
	if (ignores && !strcmp(argv[1], "ignored"))
		signal(SIGUSR1, SIG_IGN);
	for (int i = 0; i < 4; i++)
		pthread_create(threads + i, 0, polls, 0);
	while (waiting < 4)
		sched_yield();
	if (ignores) /* not before: libc blocks signals where it makes threads */
		sender = fork();
	while (ignores && !sender) {
		kill(me, SIGUSR1);
		if (getppid() != me)
			_exit(0);
	}
	for (int i = 0; i < 400; i++) {
		pid_t first = fork();
		if (!first)
			_exit(0);
		pid_t second = fork(); /* the first ends about now */
		if (!second) {
			usleep(i % 8 ? 0 : 1500);
			_exit(0);
		}
		if (handles && i % 8 == 0) { /* the second ends while it is planned */
			void *library = dlopen("libz.so.1", RTLD_NOW);
			if (!library)
				puts(dlerror());
			else
				dlclose(library);
		}
		waitpid(first, 0, 0);
		waitpid(second, 0, 0);
	}
	over = 1;
	if (ignores) {
		kill(sender, SIGKILL);
		waitpid(sender, 0, 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], 0);
	printf("%d interrupted\n", interrupted);
}
