/* Storms of processes, each counted in. The first argument says which, the
 * second how many. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tally.h"

extern char **environ;
enum { WORK = 50 };

OWN static int step(int x)
{
	ENTER;
	return x * 7 + 1;
}

OWN static int work(int n)
{
	ENTER;
	int x = n;
	for (int i = 0; i < n; i++)
		x = step(x);
	return x;
}

OWN static void await(pid_t pid)
{
	ENTER;
	while (waitpid(pid, 0, 0) < 0 && errno == EINTR)
		;
}

OWN static void *run(void *arg)
{
	ENTER;
	work((int)(long)arg);
	return 0;
}

/* ---- levels: every child makes others before it ends ---- */

OWN static void level(int depth)
{
	ENTER;
	work(WORK);
	pthread_t t;
	if (depth == 0 && pthread_create(&t, 0, run, (void *)WORK) == 0)
		pthread_join(t, 0);
	if (depth == 0)
		return;
	pid_t pid = fork();
	if (pid == 0) {
		level(depth - 1);
		_exit(0);
	}
	work(WORK);
	await(pid);
}

OWN static void levels(int n)
{
	ENTER;
	enum { AT_ONCE = 8, LEVELS = 3 }; /* a process, its child and grandchild, and a thread of that */
	pid_t pid[AT_ONCE];
	for (int i = 0; i < n; i += AT_ONCE * LEVELS) {
		for (int k = 0; k < AT_ONCE; k++)
			if ((pid[k] = fork()) == 0) {
				level(LEVELS - 1);
				_exit(0);
			}
		work(WORK);
		for (int k = 0; k < AT_ONCE; k++)
			await(pid[k]);
	}
}

/* ---- chain: each process makes the next and ends at once ---- */

OWN static void chain(int n)
{
	ENTER;
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* init has its own pace */
	if (fork() == 0)
		for (int i = 0;; i++) {
			work(WORK);
			usleep(1000);
			if (i == n || fork() != 0)
				_exit(0);
		}
	while (wait(0) > 0 || errno == EINTR)
		;
}

/* ---- calls: the ways to make a process ---- */

OWN static pid_t by_call(int how)
{
	ENTER;
	switch (how) {
	case 0:
		return fork();
	case 1:
		return (pid_t)syscall(SYS_fork);
	case 2:
		return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	}
	return _Fork();
}

OWN static void calls(int n)
{
	ENTER;
	for (int i = 0; i < n; i++) {
		pid_t pid = by_call(i % 4);
		work(WORK);
		if (pid == 0)
			_exit(0);
		await(pid);
	}
}

OWN static void commands(int n)
{
	ENTER;
	for (int i = 0; i < n; i++) {
		char *args[] = {"true", 0}, line[8];
		pid_t pid = vfork();
		if (pid == 0) {
			step(i);
			_exit(0);
		}
		await(pid);
		if (posix_spawn(&pid, "/bin/true", 0, 0, args, environ) == 0)
			await(pid);
		step(i);
		if (system("exit 3") != 3 << 8)
			abort();
		FILE *p = popen("echo x", "r");
		work(WORK);
		if (!p || !fgets(line, sizeof line, p) || pclose(p) != 0)
			abort();
	}
}

/* ---- deaths: children that do not end by themselves ---- */

OWN static void deaths(int n)
{
	ENTER;
	struct rlimit none = {0, 0};
	setrlimit(RLIMIT_CORE, &none);
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			work(WORK);
			if (i % 3 == 0)
				raise(SIGKILL);
			if (i % 3 == 1)
				abort();
			_exit(1);
		}
		await(pid);
	}
}

/* ---- daemon: closes all descriptors, forks twice, and goes on ---- */

OWN static void daemonize(int n)
{
	ENTER;
	int end[2];
	char c;
	if (pipe(end) != 0)
		abort();
	pid_t pid = fork();
	if (pid == 0) {
		setsid();
		if (fork() != 0)
			_exit(0);
		dup2(end[1], 0);
		for (int fd = 1; fd < 1024; fd++)
			close(fd);
		if (chdir("/") != 0)
			abort();
		usleep(20000); /* its parents are gone */
		for (int i = 0; i < n; i++) { /* it serves */
			pid_t worker = fork();
			work(WORK);
			if (worker == 0)
				_exit(0);
			await(worker);
		}
		_exit(0);
	}
	await(pid);
	close(end[1]);
	while (read(end[0], &c, 1) > 0)
		;
}

/* ---- spaces: numbers of processes that mean others elsewhere ---- */

static volatile int *outside; /* 1: they come and go; 2: they are done */

OWN static void inside(void)
{
	ENTER;
	enum { WORKERS = 4, USED_UP = 300 };
	for (int i = 0; i < USED_UP; i++) { /* numbers of nobody outside */
		pid_t pid = fork();
		if (pid == 0)
			_exit(0);
		await(pid);
	}
	for (int i = 0; i < WORKERS; i++)
		if (fork() == 0) {
			do
				work(WORK);
			while (*outside != 2);
			_exit(0);
		}
	*outside = 1;
	while (wait(0) > 0)
		;
}

OWN static void spaces(int n)
{
	ENTER;
	outside = (volatile int *)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
			*outside = 3;
		else if ((pid = fork()) == 0)
			inside();
		else
			await(pid);
		_exit(0);
	}
	while (*outside == 0)
		usleep(100);
	for (int i = 0; i < n && *outside == 1; i++) {
		pid_t child = fork();
		work(WORK);
		if (child == 0) {
			work(100 * WORK);
			_exit(0);
		}
		await(child);
	}
	if (*outside == 3)
		puts("no namespaces");
	*outside = 2;
	await(pid);
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 0;
	static const struct { const char *name; void (*f)(int); } all[] = {
		{"levels", levels}, {"chain", chain}, {"calls", calls}, {"commands", commands},
		{"deaths", deaths}, {"daemon", daemonize}, {"spaces", spaces},
	};
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(what, all[i].name)) {
			all[i].f(n);
			return 0;
		}
	return 2;
}
