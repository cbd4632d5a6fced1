/* What programs do to their own process, and what breaks when somebody else
 * lives in it. */
#include "observe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

/* ---- signals ---- */

static void block(int sig)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, sig);
	sigprocmask(SIG_BLOCK, &set, 0);
}

static void child_signals(int sig)
{
	pid_t pid = fork();
	if (pid == 0) {
		work();
		_exit(kill(getppid(), sig));
	}
	await(pid);
}

/* Signals that all threads block arrive where they are asked for. */
static int waiting(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	sigset_t set;
	struct signalfd_siginfo info;
	int sig = 0;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	block(SIGUSR1);
	int fd = signalfd(-1, &set, SFD_CLOEXEC);
	siginfo_t got = {0};
	struct timespec patience = {10, 0};
	child_signals(SIGUSR1);
	if (strcmp(how, "signalfd") == 0)
		say(how, read(fd, &info, sizeof info) == sizeof info ? (long)info.ssi_signo : -1);
	else if (strcmp(how, "sigwait") == 0)
		say(how, sigwait(&set, &sig) == 0 ? sig : -1);
	else
		say("sigtimedwait", sigtimedwait(&set, &got, &patience));
	say("code", got.si_code);
	say("SIGCHLD is not pending", sigpending(&set) == 0 && sigismember(&set, SIGCHLD) == 0);
	return 0;
}

static sigjmp_buf back;
static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	work();
	say("fault", sig);
	say("at", (long)info->si_addr);
	siglongjmp(back, 1);
}

/* A program that handles its own faults, on a stack of its own. */
static int faults(int argc, char **argv)
{
	(void)argc, (void)argv;
	static char stack[16384];
	stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
	struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	sigaltstack(&alternate, 0);
	sigaction(SIGSEGV, &a, 0);
	if (sigsetjmp(back, 1) == 0)
		*(volatile int *)16 = 1;
	if (sigsetjmp(back, 1) == 0)
		((void (*)(void))32)();
	work();
	return 0;
}

static int groups(int argc, char **argv)
{
	(void)argc, (void)argv;
	setpgid(0, 0);
	work();
	kill(0, SIGTERM);
	pause();
	return 1;
}

/* ---- rights ---- */

static int rights(int argc, char **argv)
{
	(void)argc, (void)argv;
	say("setresgid", syscall(SYS_setresgid, 65534, 65534, 65534));
	say("setresuid", syscall(SYS_setresuid, 65534, 65534, 65534));
	pid_t pid = fork();
	if (pid == 0) {
		work();
		_exit(getuid() == 65534);
	}
	say("child", await(pid));
	say("root", setuid(0));
	return 0;
}

static int user_namespace(int argc, char **argv)
{
	(void)argc, (void)argv;
	say("unshare", unshare(CLONE_NEWUSER | CLONE_NEWNS));
	pid_t pid = fork();
	if (pid == 0) {
		work();
		_exit(getuid() != 0);
	}
	say("child", await(pid));
	return 0;
}

/* Nothing of the file system is left. */
static int jail(int argc, char **argv)
{
	say("chroot", chroot(argc > 1 ? argv[1] : "."));
	say("chdir", chdir("/"));
	say("no /proc", open("/proc/self/maps", O_RDONLY));
	for (int i = 0; i < 12; i++)
		one_thread();
	one_child();
	return 0;
}

static int undumpable(int argc, char **argv)
{
	(void)argc, (void)argv;
	say("dumpable", prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
	say("privileges", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	for (int i = 0; i < 12; i++)
		one_thread();
	one_child();
	return 0;
}

static void limit(int which, rlim_t n)
{
	struct rlimit l = {n, n};
	say("limit", setrlimit(which, &l));
}

/* Limits that the program gives itself, then threads and children. */
static int limited(int argc, char **argv)
{
	(void)argc, (void)argv;
	limit(RLIMIT_FSIZE, 0);
	limit(RLIMIT_NOFILE, 3);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_MEMLOCK, 0);
	for (int i = 0; i < 12; i++) {
		one_thread();
		one_child();
	}
	return 0;
}

/* No thread and no child more. */
static int one_process(int argc, char **argv)
{
	(void)argc, (void)argv;
	limit(RLIMIT_NPROC, 1);
	one_thread();
	one_child();
	work();
	return 0;
}

/* No more address space than is in use: threads fail as they would. */
static int cramped(int argc, char **argv)
{
	(void)argc, (void)argv;
	limit(RLIMIT_AS, 1 << 20);
	one_thread();
	one_child();
	work();
	return 0;
}

/* ---- memory and control flow ---- */

static int generates(int argc, char **argv)
{
	(void)argc, (void)argv;
	static const unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3}; /* mov $42, %eax; ret */
	unsigned char *p = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return 1;
	memcpy(p, code, sizeof code);
	say("made", ((int (*)(void))p)());
	work();
	p[1] = 43;
	say("changed", ((int (*)(void))p)());
	return 0;
}

static __attribute__((noinline, noclone, aligned(64))) int spare(void)
{
	return sink + 1;
}

/* A program that makes its own text writable, and writable only. */
static int opens_text(int argc, char **argv)
{
	(void)argc, (void)argv;
	long page = (long)spare & -4096L;
	say("open", mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC));
	sink = 1;
	say("spare", spare());
	say("close", mprotect((void *)page, 4096, PROT_READ | PROT_EXEC));
	work();
	return 0;
}

static jmp_buf out;
static __attribute__((noinline)) void deep(int n)
{
	char pad[64];
	pad[n % 64] = (char)n;
	sink += pad[n % 64];
	if (n == 0)
		longjmp(out, 5);
	if (n > 0)
		deep(n - 1);
	sink++;
}

static ucontext_t home, away[4];
static void coroutine(int id)
{
	for (int i = 0; i < 250; i++) {
		step();
		swapcontext(&away[id], &home);
	}
}

/* Stacks that are left and entered in the middle, and small ones. */
static int jumps(int argc, char **argv)
{
	(void)argc, (void)argv;
	int r = setjmp(out);
	if (r == 0)
		deep(1000);
	say("longjmp", r);
	for (int i = 0; i < 4; i++) {
		getcontext(&away[i]);
		away[i].uc_stack.ss_sp = malloc(16384);
		away[i].uc_stack.ss_size = 16384;
		away[i].uc_link = &home;
		makecontext(&away[i], (void (*)(void))coroutine, 1, i);
	}
	for (int round = 0; round < 250; round++)
		for (int i = 0; i < 4; i++)
			swapcontext(&home, &away[i]);
	say("coroutines", 4);
	return 0;
}

static __thread char big_tls[20000];
static void *small(void *arg)
{
	big_tls[19999] = 1;
	work();
	return arg;
}

static void cleanup(void *arg)
{
	work();
	say("cleanup", (long)arg);
}

static void *cancelled(void *arg)
{
	pthread_cleanup_push(cleanup, arg);
	if (arg)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
	for (;;) {
		if (arg)
			step();
		else
			pause();
		if (arg && sink > 100000)
			pthread_testcancel();
	}
	pthread_cleanup_pop(0);
	return 0;
}

static int threads(int argc, char **argv)
{
	(void)argc, (void)argv;
	pthread_attr_t attr;
	pthread_t t;
	void *result;
	pthread_attr_init(&attr);
	say("smallest", pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN + 32768));
	for (int i = 0; i < 5; i++) {
		int r = pthread_create(&t, &attr, small, (void *)9);
		say("small", r);
		if (r == 0 && pthread_join(t, &result) == 0)
			say("result", (long)result);
	}
	pthread_create(&t, 0, cancelled, 0);
	pthread_cancel(t);
	pthread_join(t, &result);
	say("cancelled", result == PTHREAD_CANCELED);
	return 0;
}

/* As threads, but cancelled wherever it stands. */
static int cancels(int argc, char **argv)
{
	(void)argc, (void)argv;
	for (int i = 0; i < 20; i++) {
		pthread_t t;
		void *result;
		sink = 0;
		pthread_create(&t, 0, cancelled, (void *)3);
		while (*(volatile int *)&sink < 1000)
			sched_yield();
		pthread_cancel(t);
		pthread_join(t, &result);
		say("cancelled", result == PTHREAD_CANCELED);
	}
	return 0;
}

static void at_end(void) { work(); say("at exit", 1); }
static void at_end_first(void) { say("at exit", 2); }
__attribute__((constructor(200))) static void early(void) { if (getenv("OBSERVE_ORDER")) say("constructor", 200); }
__attribute__((constructor(300))) static void late(void) { if (getenv("OBSERVE_ORDER")) say("constructor", 300); }
__attribute__((destructor)) static void last(void) { if (getenv("OBSERVE_ORDER")) say("destructor", 1); }

static int order(int argc, char **argv)
{
	(void)argc, (void)argv;
	atexit(at_end);
	atexit(at_end_first);
	work();
	return 3;
}

/* A library that comes later, and what stands before and behind. */
static int plugin(int argc, char **argv)
{
	void *lib = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
	int (*answer)(int) = lib ? (int (*)(int))dlsym(lib, "plugin_answer") : 0;
	say("answer", answer ? answer(20) : -2);
	say("close", lib ? dlclose(lib) : -2);
	lib = dlopen(argc > 1 ? argv[1] : "", RTLD_LAZY | RTLD_GLOBAL);
	answer = lib ? (int (*)(int))dlsym(RTLD_DEFAULT, "plugin_answer") : 0;
	say("answer", answer ? answer(21) : -2);
	return 0;
}

static int chosen_a(void) { return 77; }
__attribute__((used)) static int (*resolve(void))(void) { return chosen_a; }
int chosen(void) __attribute__((ifunc("resolve")));

static int indirect(int argc, char **argv)
{
	(void)argc, (void)argv;
	say("chosen", chosen());
	int (*volatile p)(void) = chosen;
	say("by pointer", p());
	return 0;
}

static int pipes(int argc, char **argv)
{
	(void)argc, (void)argv;
	int end[2];
	if (pipe(end) != 0)
		return 1;
	close(end[0]);
	fflush(stdout);
	if (write(end[1], "x", 1) < 0)
		return 2;
	return 0;
}

static int echo(int argc, char **argv)
{
	(void)argc, (void)argv;
	int c;
	while ((c = getchar()) != EOF)
		putchar(c);
	work();
	say("end", 0);
	return 0;
}

const struct command does[] = {
	{"waiting", waiting},
	{"faults", faults},
	{"groups", groups},
	{"rights", rights},
	{"user-namespace", user_namespace},
	{"jail", jail},
	{"undumpable", undumpable},
	{"limited", limited},
	{"one-process", one_process},
	{"cramped", cramped},
	{"generates", generates},
	{"opens-text", opens_text},
	{"jumps", jumps},
	{"threads", threads},
	{"cancels", cancels},
	{"order", order},
	{"plugin", plugin},
	{"indirect", indirect},
	{"pipes", pipes},
	{"echo", echo},
	{0, 0},
};
