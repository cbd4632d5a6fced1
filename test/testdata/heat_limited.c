/* Limits its address space, in all ways, and says what it is told of it and whether it finds memory: some,
 * and not what is beyond the limit. With an argument it says which limit it was started with. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MB = 1 << 20 };

static void say(const char *what, struct rlimit l)
{
	printf("%s: %ld %ld\n", what, l.rlim_cur == RLIM_INFINITY ? -1 : (long)l.rlim_cur, l.rlim_max == RLIM_INFINITY ? -1 : (long)l.rlim_max);
	fflush(stdout);
}

static void told(const char *what)
{
	struct rlimit l = {1, 1};
	if (getrlimit(RLIMIT_AS, &l))
		perror(what);
	say(what, l);
}

static int finds(unsigned long bytes)
{
	volatile char *p = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return 0;
	p[bytes - 1] = 1;
	munmap((void *)p, bytes);
	return 1;
}

static void has(const char *what) { printf("%s: some %d, much %d\n", what, finds(64 * MB), finds(100UL << 30)); fflush(stdout); }

static long sets(long soft, long hard)
{
	struct rlimit l = {soft, hard};
	return setrlimit(RLIMIT_AS, &l) ? errno : 0;
}

static void handler(int sig)
{
	struct rlimit l = {0, 0};
	syscall(SYS_getrlimit, RLIMIT_AS, &l);
	if (l.rlim_cur == 900L * MB && sig)
		write(1, "handler\n", 8);
	sets(950L * MB, 2000L * MB);
}

static void *thread(void *p)
{
	has("thread");
	return p;
}

static int strict(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {4, code};
	struct rlimit l = {0, 0};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 1;
	syscall(SYS_getrlimit, RLIMIT_AS, &l);
	say("behind a filter", l);
	has("behind a filter");
	execl("/none", "none", (char *)0);
	return 2;
}

static int stranger(void)
{
	if (setgid(65534) || setuid(65534))
		return 1;
	printf("lower %ld, ", sets(700L * MB, 700L * MB));
	printf("higher %ld\n", sets(701L * MB, 701L * MB));
	told("stranger");
	has("stranger");
	execl("/none", "none", (char *)0);
	told("stranger, still");
	return 3;
}

static int ends(pid_t child)
{
	int status = 0;
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#define CHILD(what) ({ pid_t child = fork(); if (!child) { int status = (what); fflush(stdout); _exit(status); } printf("%d\n", ends(child)); fflush(stdout); })

int main(int argc, char **argv)
{
	struct rlimit l = {1, 1}, more = {600L * MB, 1500L * MB};
	if (argc > 1) {
		getrlimit(RLIMIT_AS, &l);
		l.rlim_max = 0;
		say(argv[1], l);
		return 4;
	}
	told("at first");
	printf("%ld\n", sets(500L * MB, 2000L * MB));
	told("limited");
	has("limited");
	printf("%d ", prlimit(0, RLIMIT_AS, &more, &l));
	say("exchanged", l);
	printf("%d ", prlimit(getpid(), RLIMIT_AS, 0, &l));
	say("own", l);
	printf("%ld ", syscall(SYS_setrlimit, RLIMIT_AS, &(struct rlimit){900L * MB, 1500L * MB}));
	printf("%d ", sets(3, 2) == EINVAL);
	printf("%d ", syscall(SYS_prlimit64, 0, RLIMIT_AS, 8, 0) == -1 && errno == EFAULT);
	printf("%d ", syscall(SYS_prlimit64, 0, RLIMIT_AS, 0, 8) == -1 && errno == EFAULT);
	printf("%d ", syscall(SYS_setrlimit, RLIMIT_AS, 0) == -1 && errno == EFAULT);
	printf("%d\n", prlimit(0, RLIMIT_AS, 0, 0));
	told("then");
	pthread_t t;
	if (pthread_create(&t, 0, thread, 0) || pthread_join(t, 0))
		return 1;
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	told("handled");
	CHILD(stranger());
	CHILD(strict());
	CHILD((execl("/proc/self/exe", "self", "executed", (char *)0), 5));
	pid_t child = vfork();
	if (!child) {
		sets(800L * MB, 2000L * MB);
		execl("/none", "none", (char *)0);
		execl("/proc/self/exe", "self", "from vfork", (char *)0);
		_exit(6);
	}
	printf("%d\n", ends(child));
	execl("/none", "none", (char *)0);
	told("still");
	has("still");
	CHILD((told("child"), has("child"), (int)sets(RLIM_INFINITY, RLIM_INFINITY)));
	printf("%ld\n", sets(RLIM_INFINITY, RLIM_INFINITY));
	told("at last");
	return 7;
}
