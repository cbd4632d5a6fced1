/* A program that is attached to while it runs, and knows its calls: each thread counts what it
 * calls behind each call. Commands on stdin:
 *
 *	quiet   nobody calls anything any more; prints the calls so far, a line NAME CALLS each
 *	go      they go on
 *	end     prints a sum of what was computed, and ends
 * Arguments: threads, and which of births, forks, vforks, trees (of forks), loads (of
 * libraries, if built with LOADS), signals happen besides; with
 * leaves its first thread ends. With locked, seccomp=HOW, gs it does
 * what a program may do that is not attached to.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone))

enum { LEAF, TINY, LOOPS, DEEP, BY_POINTER, SPIN, BORN, FORKED, STRUCK, KINDS };
static int online; /* CPUs: to ask opens a file, so it is asked before there are threads */
static const char *const names[] = {"leaf", "tiny", "loops", "deep", "by_pointer", "spin", "born", "forked", "struck"};

struct own {
	uint64_t calls[KINDS], sum;
	int is_quiet;
	char apart[128];
};
enum { MOST = 1000 };
static struct own all[MOST];
static pthread_t t[MOST];
static int signals, threads, births, forks, vforks, trees, quiet, ends, interrupted;
static uint64_t struck_calls, wrong;

KEPT uint64_t leaf(uint64_t x) { return x * 2654435761u ^ x >> 7; }
KEPT uint64_t tiny(uint64_t x) { return x + 1; }
KEPT uint64_t loops(uint64_t x)
{
	int n = 7;
	do
		x = x * 3 + 1;
	while (--n);
	return x;
}
KEPT uint64_t deep(uint64_t x, int n)
{
	if (n)
		x = deep(x + (uint64_t)n, n - 1);
	__asm__ volatile("" : "+r"(x)); /* no loop is made of it */
	return x * 3;
}
KEPT uint64_t by_pointer(uint64_t x) { return x ^ 0x55; }
static uint64_t (*volatile pointer)(uint64_t) = by_pointer;

/* A small body that mostly somebody is in. */
KEPT uint64_t spin(uint64_t x)
{
	for (int i = 0; i < 1000; i++)
		x = (x << 1 | x >> 63) + (uint64_t)i;
	return x;
}
KEPT uint64_t born(uint64_t x) { return leaf(x) + 1; }
KEPT uint64_t forked(uint64_t x) { return x * 5; }
KEPT void struck(int sig)
{
	(void)sig;
	__atomic_fetch_add(&struck_calls, 1, __ATOMIC_RELAXED);
}

static void *child(void *arg)
{
	struct own *o = arg;
	o->sum += born(o->sum);
	o->calls[BORN]++;
	o->calls[LEAF]++;
	return 0;
}

static void bear(struct own *o)
{
	pthread_t t;
	if (pthread_create(&t, 0, child, o) == 0)
		pthread_join(t, 0);
}

static int ended_well(pid_t p)
{
	int status;
	return p > 0 && waitpid(p, &status, 0) == p && status == 0;
}

/* What a child does, and those that it makes. */
static __attribute__((noreturn)) void live(int generations)
{
	uint64_t x = 1;
	for (int i = 0; i < 10; i++)
		x = forked(x);
	if (generations > 1) {
		pid_t p = fork();
		if (p == 0)
			live(generations - 1);
		if (!ended_well(p))
			_exit(2);
	}
	_exit(x == 9765625 ? 0 : 1);
}

static void make_process(struct own *o, int generations)
{
	pid_t p = generations ? fork() : vfork();
	if (p == 0)
		live(generations);
	if (ended_well(p))
		o->calls[FORKED] += generations ? 10u * (unsigned)generations : 10;
	else
		__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
}

static void *work(void *arg)
{
	struct own *o = arg;
	int n = (int)(o - all);
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	CPU_SET(n % online, &cpus);
	pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
	for (uint64_t x = (uint64_t)n, i = 0; !__atomic_load_n(&ends, __ATOMIC_ACQUIRE); i++) {
		while (__atomic_load_n(&quiet, __ATOMIC_ACQUIRE) && !__atomic_load_n(&ends, __ATOMIC_ACQUIRE)) {
			__atomic_store_n(&o->is_quiet, 1, __ATOMIC_RELEASE);
			usleep(200);
		}
		__atomic_store_n(&o->is_quiet, 0, __ATOMIC_RELEASE);
		x = leaf(x), o->calls[LEAF]++;
		for (int k = 0; k < 10; k++)
			x = tiny(x), o->calls[TINY]++;
		x = loops(x), o->calls[LOOPS]++;
		x = deep(x, 4), o->calls[DEEP] += 5;
		x = pointer(x), o->calls[BY_POINTER]++;
		x = spin(x), o->calls[SPIN]++;
		if (births && i % 64 == 0)
			bear(o);
		if (forks && i % 512 == 0)
			make_process(o, 1);
		if (vforks && i % 512 == 0)
			make_process(o, 0);
		if (trees && i % 2048 == 0)
			make_process(o, 4);
		o->sum += x & 1;
	}
	return 0;
}

/* Waits for what does not come: nobody is to be told of an interruption. */
static void *wait_for_nothing(void *poll)
{
	struct epoll_event e;
	int fd = *(int *)poll;
	for (;;)
		if (epoll_wait(fd, &e, 1, -1) < 0 && errno == EINTR)
			interrupted++;
	return 0;
}

/* Libraries come and go. */
static void *load(void *unused)
{
#ifdef LOADS
	for (;;) {
		void *l = dlopen("libresolv.so.2", RTLD_NOW);
		usleep(2000);
		if (l)
			dlclose(l);
		usleep(2000);
	}
#endif
	return unused;
}

static void tell(void)
{
	uint64_t calls[KINDS] = {0};
	for (int i = 0; i < threads; i++)
		while (!__atomic_load_n(&all[i].is_quiet, __ATOMIC_ACQUIRE))
			usleep(100);
	for (int i = 0; i < threads; i++)
		for (int k = 0; k < KINDS; k++)
			calls[k] += all[i].calls[k];
	calls[STRUCK] = struck_calls;
	for (int k = 0; k < KINDS; k++)
		printf("%s %llu\n", names[k], (unsigned long long)calls[k]);
	printf(".\n");
	fflush(stdout);
}

/* What a filter does to one system call, behind what libseccomp has in front: other machines'
 * and x32's are killed. */
static int filter(unsigned nr, unsigned word, unsigned value, unsigned action)
{
	struct sock_filter code[] = {
		{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch)},
		{BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64},
		{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS},
		{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
		{BPF_JMP | BPF_JGE | BPF_K, 0, 1, 0x40000000},
		{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS},
		{BPF_JMP | BPF_JEQ | BPF_K, 0, 3, nr},
		{BPF_LD | BPF_W | BPF_ABS, 0, 0, word},
		{BPF_JMP | BPF_JGE | BPF_K, 0, 1, value},
		{BPF_RET | BPF_K, 0, 0, action},
		{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
	};
	struct sock_fprog all = {sizeof code / sizeof *code, code};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all);
}

/* reboot, mmap of files at odd places, and whatever is made at an address that nobody has, are no
 * calls of this program's. */
static int filter_named(const char *how)
{
	enum { ARGUMENT = offsetof(struct seccomp_data, args), AT = offsetof(struct seccomp_data, instruction_pointer) };
	unsigned refuse = SECCOMP_RET_ERRNO | EPERM;
	if (!strcmp(how, "refuses"))
		return filter(SYS_reboot, ARGUMENT, 0, refuse) || filter(SYS_syslog, ARGUMENT, 0, refuse);
	if (!strcmp(how, "mmap"))
		return filter(SYS_mmap, ARGUMENT + 8 * 5, 0x7fff0000, refuse);
	static const struct {
		const char *name;
		unsigned action;
	} verdicts[] = {
		{"kills", SECCOMP_RET_KILL_PROCESS}, {"kills-thread", SECCOMP_RET_KILL_THREAD}, {"traps", SECCOMP_RET_TRAP},
		{"asks-tracer", SECCOMP_RET_TRACE}, {"asks", SECCOMP_RET_USER_NOTIF}, {"logs", SECCOMP_RET_LOG},
	};
	for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++)
		if (!strcmp(how, verdicts[i].name))
			return filter(SYS_reboot, ARGUMENT, 0, verdicts[i].action);
	if (!strcmp(how, "addresses"))
		return filter(SYS_reboot, AT, 0, refuse);
	return 1;
}

static void ticks(int microseconds)
{
	struct itimerval t = {{0, microseconds}, {0, microseconds}};
	setitimer(ITIMER_PROF, &t, 0);
}

/* Does what it is told. */
static void *talk(void *unused)
{
	char line[64];
	(void)unused;
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "quiet\n")) {
			__atomic_store_n(&quiet, 1, __ATOMIC_RELEASE);
			if (signals)
				ticks(0);
			usleep(signals ? 5000 : 0); /* who was struck is through */
			tell();
		} else if (!strcmp(line, "go\n")) {
			if (signals)
				ticks(1000);
			__atomic_store_n(&quiet, 0, __ATOMIC_RELEASE);
			printf("gone\n");
			fflush(stdout);
		} else {
			break;
		}
	}
	__atomic_store_n(&ends, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], 0);
	printf("wrong %llu interrupted %d\n", (unsigned long long)wrong, interrupted);
	exit(0);
}

int main(int argc, char **argv)
{
	int loads = 0, leaves = 0, poll = epoll_create1(0);
	pthread_t waiter, loader, talker;
	online = (int)sysconf(_SC_NPROCESSORS_ONLN);
	threads = argc > 1 ? atoi(argv[1]) : 4;
	for (int i = 2; i < argc; i++) {
		births |= !strcmp(argv[i], "births");
		forks |= !strcmp(argv[i], "forks");
		vforks |= !strcmp(argv[i], "vforks");
		trees |= !strcmp(argv[i], "trees");
		loads |= !strcmp(argv[i], "loads");
		signals |= !strcmp(argv[i], "signals");
		leaves |= !strcmp(argv[i], "leaves");
		if ((!strcmp(argv[i], "locked") && mlockall(MCL_CURRENT | MCL_FUTURE)) ||
		    (!strncmp(argv[i], "seccomp=", 8) && filter_named(argv[i] + 8)) ||
		    (!strcmp(argv[i], "gs") && syscall(SYS_arch_prctl, ARCH_SET_GS, all)))
			return 3;
	}
	if (threads < 1 || threads > MOST)
		return 2;
	(void)!nice(5); /* its threads never rest: who attaches to it, and other tests, come first */
	if (signals) {
		struct sigaction a = {.sa_handler = struck, .sa_flags = SA_RESTART};
		sigaction(SIGPROF, &a, 0);
		ticks(1000);
	} else {
		pthread_create(&waiter, 0, wait_for_nothing, &poll);
	}
	if (loads)
		pthread_create(&loader, 0, load, 0);
	for (int i = 0; i < threads; i++)
		pthread_create(&t[i], 0, work, &all[i]);
	if (leaves) {
		pthread_create(&talker, 0, talk, 0);
		pthread_exit(0);
	}
	talk(0);
	return 0;
}
