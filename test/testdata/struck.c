/* Signals that strike in counted functions: what their handlers see of the
 * code, and what they do there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* As the JDK's SafeFetch: a load that may fault, and where the handler goes on
 * then: both in the first bytes of their function. */
__asm__(".text\n.globl fetch\n.type fetch, @function\n"
	"fetch: .cfi_startproc\nmov (%rdi), %rax\nmov %rax, %rax\nnop\nnop\nret\n.cfi_endproc\n.size fetch, . - fetch\n"
	/* Too long to move whole, and the fault is the second instruction. */
	".globl fetch_long\n.type fetch_long, @function\n"
	"fetch_long: .cfi_startproc\nxor %eax, %eax\nmov (%rdi), %al\nnop\n.rept 80\nnop\n.endr\nret\n.cfi_endproc\n.size fetch_long, . - fetch_long\n"
	".globl undefined\n.type undefined, @function\nundefined: .cfi_startproc\nud2\nnop\nnop\nnop\nret\n.cfi_endproc\n.size undefined, . - undefined\n");
extern uint64_t fetch(const void *), fetch_long(const void *);
extern void undefined(void);
/* No symbols: those would be entries. */
#define fetch_at ((char *)fetch)
#define fetch_on (fetch_at + 3)
#define long_at ((char *)fetch_long + 2)
#define long_on (long_at + 2)

static int surprises;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	if (g[REG_RIP] == (greg_t)fetch_at) {
		g[REG_RIP] = (greg_t)fetch_on;
		g[REG_RAX] = -2;
	} else if (g[REG_RIP] == (greg_t)long_at) {
		g[REG_RIP] = (greg_t)long_on;
		g[REG_RAX] = -3;
	} else if (sig == SIGILL && g[REG_RIP] == (greg_t)undefined && info->si_addr == undefined) {
		g[REG_RIP] += 2;
	} else {
		surprises++;
		_Exit(3);
	}
}

static void recovers(void)
{
	struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
	sigaction(SIGSEGV, &a, 0);
	sigaction(SIGILL, &a, &old);
	printf("before: %d\n", old.sa_handler == SIG_DFL);
	sigaction(SIGSEGV, 0, &old);
	printf("handler: %d flags %x\n", old.sa_sigaction == on_fault, old.sa_flags & ~0x04000000);
	uint64_t word = 42, sum = 0;
	for (int i = 0; i < 1000; i++)
		sum += fetch(&word) + fetch((void *)8) + fetch_long(&word) + fetch_long((void *)16);
	for (int i = 0; i < 1000; i++)
		undefined();
	printf("recovered: %lx\n", sum);
	signal(SIGSEGV, SIG_DFL);
	signal(SIGILL, SIG_IGN);
	sigaction(SIGILL, 0, &old);
	printf("ignored: %d\n", old.sa_handler == SIG_IGN);
}

/* Small functions that a timer's signal often finds at their entries. */
__attribute__((noinline)) static int leaf(int x) { return x * 3 + 1; }
__attribute__((noinline)) static int middle(int x) { volatile int y = leaf(x); return y + leaf(y); }
__attribute__((noinline)) static int outer(int x) { volatile int y = middle(x); return middle(y) - x; }

static volatile sig_atomic_t ticks, lost, strange;

static void on_tick(int sig)
{
	(void)sig;
	void *frames[64];
	int n = backtrace(frames, 64), home = 0;
	for (int i = 0; i < n; i++) {
		Dl_info d = {0};
		if (!dladdr(frames[i], &d))
			strange++;
		else if (d.dli_sname && strcmp(d.dli_sname, "main") == 0)
			home = 1;
	}
	lost += !home;
	ticks++;
}

static void ticking(void)
{
	void *warm[4];
	backtrace(warm, 4);
	struct sigaction a = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
	sigaction(SIGALRM, &a, 0);
	/* ITIMER_PROF goes by the kernel's ticks: 4 ms or more. */
	struct itimerval every = {{0, 700}, {0, 700}}, off = {{0, 0}, {0, 0}};
	setitimer(ITIMER_REAL, &every, 0);
	volatile int x = 1;
	while (ticks < 300)
		x = outer(x);
	setitimer(ITIMER_REAL, &off, 0);
	printf("ticks: lost %d strange %d\n", (int)lost, (int)strange);
}

/* In a system call that is made where it is watched. */
static void waits(void)
{
	struct sigaction a = {.sa_handler = on_tick};
	struct itimerval every = {{0, 2000}, {0, 2000}}, off = {{0, 0}, {0, 0}};
	ticks = lost = strange = 0;
	sigaction(SIGALRM, &a, 0);
	setitimer(ITIMER_REAL, &every, 0);
	while (ticks < 50) {
		struct timespec second = {1, 0};
		syscall(SYS_nanosleep, &second, 0);
	}
	setitimer(ITIMER_REAL, &off, 0);
	printf("waiting: lost %d strange %d\n", (int)lost, (int)strange);
}

static volatile int cleaned, ready;
static void clean(void *arg) { cleaned += arg != 0; }

static void *spins(void *arg)
{
	int old;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	volatile int x = 1;
	pthread_cleanup_push(clean, arg);
	ready = 1;
	for (;;)
		x = outer(x);
	pthread_cleanup_pop(0);
	return 0;
}

static void cancels(void)
{
	int cancelled = 0;
	for (int i = 0; i < 200; i++) {
		pthread_t t;
		void *end;
		ready = 0;
		pthread_create(&t, 0, spins, &t);
		while (!ready)
			;
		for (volatile int k = 0; k < 20000 + 100 * i; k++)
			;
		pthread_cancel(t);
		pthread_join(t, &end);
		cancelled += end == PTHREAD_CANCELED;
	}
	printf("cancelled %d cleaned %d\n", cancelled, cleaned);
}

static sigjmp_buf back;
static void on_alarm(int sig) { (void)sig; siglongjmp(back, 1); }

static void jumps(void)
{
	signal(SIGALRM, on_alarm);
	volatile int left = 300;
	sigsetjmp(back, 1);
	if (left-- > 0) {
		struct itimerval once = {{0, 0}, {0, 150}};
		setitimer(ITIMER_REAL, &once, 0);
		volatile int x = 1;
		for (;;)
			x = outer(x);
	}
	printf("jumped\n");
}

/* Handlers that two threads install at the same time stay with their flags. */
static void first(int sig, siginfo_t *info, void *context) { (void)sig, (void)context; if (!info) surprises++; }
static void second(int sig) { (void)sig; }
static void *installs(void *arg)
{
	struct sigaction a = {.sa_flags = SA_SIGINFO}, b = {.sa_flags = SA_RESTART}, old;
	a.sa_sigaction = first;
	b.sa_handler = second;
	for (int i = 0; i < 20000; i++) {
		sigaction(SIGUSR1, (i + (arg != 0)) % 2 ? &a : &b, &old);
		int is_first = old.sa_sigaction == first, is_second = old.sa_handler == second;
		if (!(is_first && old.sa_flags & SA_SIGINFO) && !(is_second && old.sa_flags & SA_RESTART) && old.sa_handler != SIG_DFL)
			surprises++;
	}
	return 0;
}

int main(void)
{
	recovers();
	ticking();
	waits();
	cancels();
	jumps();
	pthread_t t;
	pthread_create(&t, 0, installs, &t);
	installs(0);
	pthread_join(t, 0);
	printf("surprises %d\n", surprises);
	return 0;
}
