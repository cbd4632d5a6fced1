/* Calls the functions of traps.S from everywhere, each a fixed number of times,
 * and uses SIGTRAP itself. Prints what it sees. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <execinfo.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

void trap_ret(void), trap_arrival(void), trap_loop(int), own_trap(void);
extern char behind_own_trap[];

enum { CHILDREN = 3 };

/* Each of the three n times; leaf 7 times that. */
static void each(int n)
{
	for (int i = 0; i < n; i++) {
		trap_ret();
		trap_arrival();
		trap_loop(2);
	}
}

static void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu % (int)sysconf(_SC_NPROCESSORS_ONLN), &set);
	sched_setaffinity(0, sizeof set, &set);
}

/* ---- from everywhere ---------------------------------------------------- */

static pthread_barrier_t barrier;

static void *pinned(void *cpu)
{
	pin((int)(long)cpu);
	pthread_barrier_wait(&barrier);
	each(5000);
	return 0;
}

static void *blocked(void *none)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, 0);
	each(1000);
	return none;
}

static void threads(void)
{
	pthread_t t[3];
	pthread_barrier_init(&barrier, 0, 2);
	for (long i = 0; i < 2; i++)
		pthread_create(&t[i], 0, pinned, (void *)i);
	pthread_create(&t[2], 0, blocked, 0);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], 0);
}

static void forks(void)
{
	pid_t children[CHILDREN];
	for (int i = 0; i < CHILDREN; i++)
		if ((children[i] = fork()) == 0) {
			pin(i);
			each(1000);
			_exit(10 + i);
		}
	each(1000);
	for (int i = 0; i < CHILDREN; i++) {
		int status;
		waitpid(children[i], &status, 0);
		printf("child %d\n", status >> 8);
	}
	pid_t child = vfork();
	if (child == 0) {
		trap_ret();
		_exit(0);
	}
	waitpid(child, 0, 0);
	char *argv[] = {"true", 0}, *envp[] = {0};
	int status = -1;
	if (posix_spawn(&child, "/bin/true", 0, 0, argv, envp) == 0)
		waitpid(child, &status, 0);
	printf("spawned %d\n", status);
}

static sigjmp_buf out;

static void on_usr1(int s)
{
	(void)s;
	each(10);
}

static void on_usr2(int s)
{
	(void)s;
	each(1);
	siglongjmp(out, 1);
}

static void handlers(void)
{
	struct sigaction a = {.sa_handler = on_usr1, .sa_flags = SA_ONSTACK}, old;
	stack_t stack = {.ss_size = 64 << 10, .ss_sp = malloc(64 << 10)};
	sigaltstack(&stack, 0);
	sigfillset(&a.sa_mask);
	sigaction(SIGUSR1, &a, 0);
	for (int i = 0; i < 10; i++)
		raise(SIGUSR1);
	a.sa_flags = 0;
	sigaction(SIGUSR1, &a, &old);
	for (int i = 0; i < 10; i++)
		raise(SIGUSR1);
	printf("mask of a handler: SIGTRAP %d SIGUSR2 %d\n", sigismember(&old.sa_mask, SIGTRAP), sigismember(&old.sa_mask, SIGUSR2));
	a.sa_handler = on_usr2;
	sigaction(SIGUSR2, &a, 0);
	volatile int jumps = 0;
	for (int i = 0; i < 10; i++)
		if (sigsetjmp(out, 1) == 0)
			raise(SIGUSR2);
		else
			jumps++;
	printf("jumps %d\n", jumps);
}

/* Handlers that run while a call waits with a mask of its own. */
static void waits(void)
{
	struct sigaction a = {.sa_handler = on_usr1};
	sigset_t usr1, others;
	struct timespec second = {1, 0};
	struct epoll_event event;
	sigaction(SIGUSR1, &a, 0);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigfillset(&others);
	sigdelset(&others, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, 0);
	for (int i = 0; i < 5; i++) {
		int ret = 0;
		raise(SIGUSR1);
		switch (i) {
		case 0: ret = sigsuspend(&others); break;
		case 1: ret = ppoll(0, 0, &second, &others); break;
		case 2: ret = pselect(0, 0, 0, 0, &second, &others); break;
		case 3: ret = epoll_pwait(epoll_create1(0), &event, 1, 1000, &others); break;
		case 4: ret = epoll_pwait2(epoll_create1(0), &event, 1, &second, &others); break;
		}
		printf("wait %d: %d, interrupted %d\n", i, ret, errno == EINTR);
	}
	sigprocmask(SIG_UNBLOCK, &usr1, 0);
}

static void cleanup(void *what) { printf("cleaned up %s\n", (const char *)what); }

static void *waiting(void *how)
{
	sigset_t all;
	sigfillset(&all);
	pthread_cleanup_push(cleanup, how);
	if (*(const char *)how == 's')
		sigsuspend(&all);
	else
		ppoll(0, 0, 0, &all);
	pthread_cleanup_pop(0);
	return 0;
}

/* A thread that waits like this is cancelled; its stack is unwound. */
static void cancels(void)
{
	static const char *const how[] = {"sigsuspend", "ppoll"};
	for (int i = 0; i < 2; i++) {
		pthread_t t;
		void *result;
		pthread_create(&t, 0, waiting, (void *)how[i]);
		usleep(20000);
		pthread_cancel(t);
		pthread_join(t, &result);
		printf("%s: cancelled %d\n", how[i], result == PTHREAD_CANCELED);
	}
}

static void *mask_of_thread(void *none)
{
	sigset_t now;
	pthread_sigmask(SIG_BLOCK, 0, &now);
	printf("a thread: SIGTRAP blocked %d\n", sigismember(&now, SIGTRAP));
	each(1);
	return none;
}

/* A thread inherits the mask. */
static void inherits(void)
{
	sigset_t all, old;
	pthread_t t;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	pthread_create(&t, 0, mask_of_thread, 0);
	pthread_join(t, 0);
	mask_of_thread(0);
	sigprocmask(SIG_SETMASK, &old, 0);
}

/* ---- SIGTRAP of its own ---------------------------------------------------- */

static volatile int seen, code, offset, frames, usr2_blocked;

static void on_trap(int s, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	void *addresses[64];
	sigset_t now;
	seen += s == SIGTRAP;
	code = info->si_code;
	offset = (int)((char *)u->uc_mcontext.gregs[REG_RIP] - behind_own_trap);
	frames = backtrace(addresses, 64);
	sigprocmask(SIG_BLOCK, 0, &now);
	usr2_blocked = sigismember(&now, SIGUSR2);
	each(1);
}

static void show(const char *when)
{
	struct sigaction a;
	sigset_t now, pending;
	sigaction(SIGTRAP, 0, &a);
	sigprocmask(SIG_BLOCK, 0, &now);
	sigpending(&pending);
	printf("%s: %s, flags %#x, mask SIGUSR2 %d SIGTRAP %d; blocked %d, pending %d; seen %d, code %d\n", when,
	       a.sa_sigaction == on_trap ? "own" : a.sa_handler == SIG_DFL ? "default" : a.sa_handler == SIG_IGN ? "ignored" : "another",
	       (unsigned)a.sa_flags & ~0x04000000u, sigismember(&a.sa_mask, SIGUSR2), sigismember(&a.sa_mask, SIGTRAP),
	       sigismember(&now, SIGTRAP), sigismember(&pending, SIGTRAP), seen, code);
}

static void install(int flags)
{
	struct sigaction a = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | flags};
	sigemptyset(&a.sa_mask);
	sigaddset(&a.sa_mask, SIGUSR2);
	if (sigaction(SIGTRAP, &a, 0) != 0)
		perror("sigaction");
}

/* More actions than anybody would think of are told one from the other. */
static void many_actions(void)
{
	enum { SIGNALS = 9, ACTIONS = 1 << SIGNALS };
	int told = 0;
	for (int i = 0; i < 2 * ACTIONS; i++) {
		struct sigaction a = {.sa_handler = SIG_IGN}, b;
		for (int s = 0; s < SIGNALS; s++)
			if (i >> s & 1)
				sigaddset(&a.sa_mask, SIGRTMIN + s);
		sigaction(SIGTRAP, &a, 0);
		sigaction(SIGTRAP, 0, &b);
		told += b.sa_handler == SIG_IGN && memcmp(&a.sa_mask, &b.sa_mask, 8) == 0;
	}
	signal(SIGTRAP, SIG_DFL);
	printf("%d actions\n", told);
}

static void own(void)
{
	sigset_t trap;
	int which = 0;
	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	show("at the start");
	many_actions();
	install(0);
	show("installed");
	for (int i = 0; i < 100; i++)
		own_trap();
	show("traps");
	printf("offset %d, frames %d, SIGUSR2 blocked in the handler %d\n", offset, frames, usr2_blocked);
	each(10);
	raise(SIGTRAP);
	show("raised");
	kill(getpid(), SIGTRAP);
	show("sent");

	sigprocmask(SIG_BLOCK, &trap, 0);
	show("blocked");
	each(10);
	raise(SIGTRAP);
	show("raised when blocked");
	sigprocmask(SIG_UNBLOCK, &trap, 0);
	show("unblocked");
	sigprocmask(SIG_BLOCK, &trap, 0);
	kill(getpid(), SIGTRAP);
	sigwait(&trap, &which);
	printf("waited for %d\n", which);
	sigprocmask(SIG_UNBLOCK, &trap, 0);
	show("waited");

	install(SA_RESETHAND | SA_NODEFER);
	show("once");
	own_trap();
	show("reset");
	signal(SIGTRAP, SIG_IGN);
	raise(SIGTRAP);
	show("ignored");
	each(10);
	printf("signal: %d\n", signal(SIGTRAP, SIG_DFL) == SIG_IGN);
	errno = 0;
	printf("wrong: %d", sigaction(SIGKILL, &(struct sigaction){.sa_handler = SIG_IGN}, 0));
	printf(" %d\n", errno);
	errno = 0;
	printf("wrong: %d", sigprocmask(17, &trap, 0));
	printf(" %d\n", errno);
}

/* How a child ends of a trap or signal of its own. */
static void ends(const char *how, int ignored, int sent, int block)
{
	pid_t child = fork();
	if (child == 0) {
		sigset_t trap;
		sigemptyset(&trap);
		sigaddset(&trap, SIGTRAP);
		if (ignored)
			signal(SIGTRAP, SIG_IGN);
		if (block)
			sigprocmask(SIG_BLOCK, &trap, 0);
		if (sent)
			raise(SIGTRAP);
		else
			own_trap();
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	printf("%s: signal %d, exit %d\n", how, WTERMSIG(status), WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
	setvbuf(stdout, 0, _IOLBF, 0);
	if (argc > 2) { /* time NUMBER */
		for (int i = atoi(argv[2]); i > 0; i--)
			trap_ret();
		return 0;
	}
	each(1000);
	threads();
	forks();
	handlers();
	waits();
	cancels();
	inherits();
	own();
	ends("int3", 0, 0, 0);
	ends("int3, ignored", 1, 0, 0);
	ends("int3, blocked", 0, 0, 1);
	ends("sent", 0, 1, 0);
	ends("sent, ignored", 1, 1, 0);
	ends("sent, blocked", 0, 1, 1);
	return 0;
}
