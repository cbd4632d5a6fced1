/* Processes of every kind, each counting work on a core of its own while its
 * parent does the same. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tally.h"

extern char **environ;
enum { WORK = 20000 };

OWN static void pin(int n)
{
	ENTER;
	cpu_set_t all, one;
	static cpu_set_t first;
	if (CPU_COUNT(&first) == 0)
		sched_getaffinity(0, sizeof first, &first);
	all = first;
	n %= CPU_COUNT(&all);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all) && n-- == 0) {
			CPU_ZERO(&one);
			CPU_SET(i, &one);
			sched_setaffinity(0, sizeof one, &one);
			return;
		}
}

OWN static int step(int x)
{
	ENTER;
	return x * 7 + 1;
}

OWN static int work(int core)
{
	ENTER;
	int x = core;
	pin(core);
	for (int i = 0; i < WORK; i++)
		x = step(x);
	return x & 1;
}

OWN static int await(pid_t pid)
{
	ENTER;
	int status = -1;
	while (waitpid(pid, &status, 0) < 0)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- fork ---- */

OWN static int twins(void)
{
	ENTER;
	pid_t pid = fork();
	if (pid == 0) {
		work(1);
		_exit(3);
	}
	work(0);
	return await(pid);
}

/* Every process makes two more. */
OWN static int tree(int depth)
{
	ENTER;
	pid_t pid[2];
	int sum = 1;
	for (int i = 0; i < 2 && depth > 0; i++)
		if ((pid[i] = fork()) == 0)
			_exit(tree(depth - 1));
	work(depth);
	for (int i = 0; i < 2 && depth > 0; i++)
		sum += await(pid[i]);
	return sum;
}

/* All there at once, and then all gone: rows are handed out again. */
OWN static int crowd(int n)
{
	ENTER;
	pid_t pid[64];
	int sum = 0;
	for (int i = 0; i < n; i++)
		if ((pid[i] = fork()) == 0) {
			step(i);
			pause();
			_exit(1);
		}
	for (int i = 0; i < n; i++) {
		kill(pid[i], SIGKILL);
		sum += await(pid[i]);
	}
	return sum;
}

/* Children that end without saying so. */
OWN static int ends(void)
{
	ENTER;
	int sum = 0;
	struct rlimit none = {0, 0};
	for (int how = 0; how < 4; how++) {
		pid_t pid = fork();
		if (pid == 0) {
			setrlimit(RLIMIT_CORE, &none);
			work(how);
			if (how == 0)
				abort();
			if (how == 1)
				raise(SIGKILL);
			if (how == 2)
				execl("/bin/false", "false", (char *)0);
			_exit(work(how));
		}
		sum = sum * 3 + await(pid);
	}
	return sum;
}

/* A daemon: its parent is gone when it works. */
OWN static int daemons(void)
{
	ENTER;
	int end[2];
	char c = 0;
	if (pipe(end) != 0)
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		setsid();
		if (fork() == 0) {
			work(1);
			if (write(end[1], "x", 1) != 1)
				abort();
		}
		_exit(0);
	}
	await(pid);
	close(end[1]);
	while (read(end[0], &c, 1) > 0)
		;
	close(end[0]);
	return c;
}

/* ---- children that borrow our memory ---- */

OWN static void borrowed(int x)
{
	ENTER;
	step(x);
}

OWN static int vforks(void)
{
	ENTER;
	volatile int sum = 0;
	for (volatile int i = 0; i < 5; i++) {
		pid_t pid = vfork();
		if (pid == 0) {
			borrowed(i);
			_exit(i);
		}
		sum += await(pid);
		pid = vfork();
		if (pid == 0) {
			borrowed(i);
			execl("/bin/false", "false", (char *)0);
			_exit(127);
		}
		step(i);
		sum += await(pid);
	}
	return sum;
}

OWN static int spawns(void)
{
	ENTER;
	int sum = 0;
	for (int i = 0; i < 3; i++) {
		pid_t pid;
		char *args[] = {"false", 0};
		if (posix_spawn(&pid, "/bin/false", 0, 0, args, environ) == 0)
			sum += await(pid);
		step(i);
		sum += WEXITSTATUS(system("exit 5"));
		FILE *p = popen("echo 40", "r");
		int n = 0;
		sum += p && fscanf(p, "%d", &n) == 1 ? n : -1000;
		sum += pclose(p);
	}
	return sum;
}

/* A process that shares our memory and runs beside us. */
OWN static int beside(void *arg)
{
	ENTER;
	return work((int)(long)arg);
}

OWN static int clones(void)
{
	ENTER;
	enum { SIZE = 1 << 16 };
	char *stack = (char *)malloc(SIZE);
	int sum = 0;
	for (long i = 0; i < 3; i++) {
		pid_t pid = clone(beside, stack + SIZE, CLONE_VM | CLONE_FILES | SIGCHLD, (void *)i);
		work((int)i + 1);
		sum += await(pid);
	}
	free(stack);
	return sum;
}

/* ---- from threads and handlers ---- */

OWN static void *thread(void *arg)
{
	ENTER;
	work((int)(long)arg);
	pid_t pid = fork();
	if (pid == 0)
		_exit(work((int)(long)arg + 1));
	work((int)(long)arg);
	return (void *)(long)await(pid);
}

OWN static long threads(void)
{
	ENTER;
	pthread_t t[3];
	long sum = 0;
	for (long i = 0; i < 3; i++)
		pthread_create(&t[i], 0, thread, (void *)i);
	work(1);
	for (int i = 0; i < 3; i++) {
		void *result;
		pthread_join(t[i], &result);
		sum += (long)result;
	}
	return sum;
}

/* A forked child that makes threads of its own. */
OWN static int forked_threads(void)
{
	ENTER;
	pid_t pid = fork();
	if (pid == 0)
		_exit((int)threads());
	work(0);
	return await(pid);
}

static volatile pid_t child;
OWN static void on_signal(int sig)
{
	ENTER;
	child = fork();
	step(sig);
	if (child == 0)
		_exit(work(1));
}

OWN static int handlers(void)
{
	ENTER;
	int sum = 0;
	signal(SIGUSR1, on_signal);
	for (int i = 0; i < 4; i++) {
		raise(SIGUSR1);
		work(0);
		sum += await(child);
	}
	return sum;
}

/* ---- a clone of the program's own ---- */

/* Not the library's: the bytes that make a child are here. */
pid_t inline_fork(void);
__asm__(".text\n.globl inline_fork\n.type inline_fork, @function\n"
	"inline_fork:\n"
	"	push %rbx\n	mov %rsp, %rbx\n	nop\n"
	"	mov $57, %eax\n	syscall\n"
	"	mov %rbx, %rsp\n	pop %rbx\n	ret\n"
	".size inline_fork, . - inline_fork\n");
TALLY(inline_forks, "inline_fork");

OWN static int inline_forked(void)
{
	ENTER;
	int sum = 0;
	for (int i = 0; i < 3; i++) {
		ENTER_AS(inline_forks);
		pid_t pid = inline_fork();
		if (pid == 0)
			_exit(work(1));
		work(0);
		sum += await(pid);
	}
	return sum;
}

OWN static void show(const char *what, long n)
{
	ENTER;
	printf("%s %ld\n", what, n);
	fflush(stdout);
}

int main(void)
{
	pin(0);
	show("twins", twins() + twins());
	show("tree", tree(3));
	show("crowd", crowd(40) + crowd(20));
	show("ends", ends());
	show("daemons", daemons());
	show("vforks", vforks());
	show("spawns", spawns());
	show("clones", clones());
	show("threads", threads());
	show("forked threads", forked_threads());
	show("handlers", handlers());
	show("inline fork", inline_forked());
	return 0;
}
