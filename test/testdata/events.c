/* Calls that do not come from a call instruction of the program: signal
 * handlers, constructors and destructors, IFUNCs, contexts, and what longjmp
 * leaves behind. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include "calls.h"

/* ---- setjmp and longjmp ---- */

static jmp_buf outer, inner;

OWN static void deep_jump(int n)
{
	volatile char room[32];
	if (n == 0)
		longjmp(outer, 5);
	room[n % 32] = 1;
	deep_jump(n - 1);
	room[0] = 2;
}

OWN static void jump_inner(int x) { longjmp(inner, x); }

OWN static int jumps(void)
{
	volatile int sum = 0, rounds = 0;
	int r = setjmp(outer);
	sum += r;
	if (rounds++ < 4)
		deep_jump(10);
	for (volatile int i = 1; i <= 3; i++) {
		int k = _setjmp(inner);
		sum += k;
		if (k == 0)
			jump_inner(i);
	}
	return sum;
}

/* ---- signals ---- */

static volatile sig_atomic_t got, ticks;
static int handled_calls; /* of helper, made by handlers */

OWN static int helper(int x) { return x + 1; }
OWN static void on_usr1(int sig) { got += sig; handled_calls = helper(handled_calls); }
OWN static void on_info(int sig, siginfo_t *info, void *context) { got += sig + info->si_code * 0 + (context != 0); }
OWN static void on_timer(int sig) { ticks += sig > 0; }
OWN static void on_fault(int sig) { got += sig; siglongjmp(inner, 2); }
OWN static void on_nested(int sig) { got++; if (sig == SIGUSR1) raise(SIGUSR2); }

static void set(int sig, void (*handler)(int))
{
	struct sigaction a;
	memset(&a, 0, sizeof a);
	a.sa_handler = handler;
	sigaction(sig, &a, 0);
}

/* One shot at a time, each waited for: five ticks whatever the machine. */
static void timers(void)
{
	timer_t timer;
	sigset_t block, wait;
	struct sigevent event;
	memset(&event, 0, sizeof event);
	event.sigev_notify = SIGEV_SIGNAL;
	event.sigev_signo = SIGALRM;
	sigemptyset(&block);
	sigaddset(&block, SIGALRM);
	sigprocmask(SIG_BLOCK, &block, &wait);
	set(SIGALRM, on_timer);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	while (ticks < 5) {
		int before = ticks;
		struct itimerspec once = {{0, 0}, {0, 200000}};
		timer_settime(timer, 0, &once, 0);
		while (ticks == before)
			sigsuspend(&wait);
	}
	timer_delete(timer);
	sigprocmask(SIG_SETMASK, &wait, 0);
}

/* Each shot makes libc make a thread that calls notified. */
static volatile int notifications;
OWN static void notified(union sigval value) { __atomic_fetch_add(&notifications, value.sival_int, __ATOMIC_RELEASE); }

static void notify(void)
{
	timer_t timer;
	struct sigevent event;
	memset(&event, 0, sizeof event);
	event.sigev_notify = SIGEV_THREAD;
	event.sigev_notify_function = notified;
	event.sigev_value.sival_int = 1;
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	for (int i = 1; i <= 3; i++) {
		struct itimerspec once = {{0, 0}, {0, 200000}};
		timer_settime(timer, 0, &once, 0);
		while (__atomic_load_n(&notifications, __ATOMIC_ACQUIRE) < i)
			sched_yield();
	}
	timer_delete(timer);
}

static void signals(void)
{
	struct sigaction a;
	memset(&a, 0, sizeof a);
	a.sa_sigaction = on_info;
	a.sa_flags = SA_SIGINFO;
	sigaction(SIGUSR2, &a, 0);
	set(SIGUSR1, on_usr1);
	for (int i = 0; i < 7; i++)
		raise(i % 3 ? SIGUSR1 : SIGUSR2);
	/* On a stack of its own, and nested. */
	stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
	sigaltstack(&stack, 0);
	a.sa_flags = SA_ONSTACK;
	a.sa_handler = on_nested;
	sigaction(SIGUSR1, &a, 0);
	sigaction(SIGUSR2, &a, 0);
	raise(SIGUSR1);
	raise(SIGUSR2);
	timers();
	notify();
	show("signals", got);
	show("ticks", ticks);
}

/* Handlers that are left by siglongjmp; callgrind 3.19 does not survive one. */
static void faults(void)
{
	set(SIGSEGV, on_fault);
	for (volatile int i = 0; i < 3; i++)
		if (sigsetjmp(inner, 1) == 0)
			*(volatile int *)8 = i;
	show("faults", got);
}

/* ---- before and after main ---- */

static int order;
#if !defined __PIC__ || defined __PIE__ /* a library has none */
/* Before libc has an environment, so without hooks. */
OWN UNHOOKED static void preinit(int argc, char **argv, char **envp)
{
	(void)argc;
	(void)argv;
	(void)envp;
	order = 1;
}
__attribute__((section(".preinit_array"), used)) static void (*preinits[])(int, char **, char **) = {preinit};
#endif

OWN __attribute__((constructor(200))) static void first_constructor(void) { order = order * 10 + 2; }
OWN __attribute__((constructor)) static void second_constructor(void) { order = order * 10 + helper(2); }
OWN __attribute__((destructor)) static void first_destructor(void) { puts("first destructor"); }
OWN __attribute__((destructor(200))) static void second_destructor(void) { puts("second destructor"); }
OWN static void at_exit(void) { puts("at exit"); }
OWN static void on_exit_handler(int status, void *arg) { printf("exit %d %ld\n", status, (long)arg); }

/* ---- IFUNC: the resolver runs before any constructor ---- */

OWN static int chosen_a(int x) { return x + 100; }
OWN static int chosen_b(int x) { return x + 200; }
typedef int chosen_function(int);
/* On the stack, not through a table: relocations may not have been done. */
UNHOOKED __attribute__((used)) static chosen_function *resolve(void) { return sizeof(long) == 8 ? chosen_b : chosen_a; }
int chosen(int x) __attribute__((ifunc("resolve")));

/* ---- contexts: a function entered by ret, left by a jump ---- */

static ucontext_t back, coroutine;
OWN static void coroutine_body(int n)
{
	for (int i = 0; i < n; i++) {
		order += helper(i);
		swapcontext(&coroutine, &back);
	}
}

static void contexts(void)
{
	static char stack[1 << 16];
	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = stack;
	coroutine.uc_stack.ss_size = sizeof stack;
	coroutine.uc_link = &back;
	makecontext(&coroutine, (void (*)(void))coroutine_body, 1, 6);
	for (int i = 0; i < 7; i++)
		swapcontext(&back, &coroutine);
}

/* ---- what threads call ---- */

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
OWN static void key_end(void *value) { free(value); }
OWN static void make_key(void) { pthread_key_create(&key, key_end); }
OWN static void cleanup(void *arg) { ++*(int *)arg; }
OWN static void *thread(void *arg)
{
	pthread_once(&once, make_key);
	pthread_setspecific(key, malloc(8));
	pthread_cleanup_push(cleanup, arg);
	if (*(int *)arg < 10)
		pthread_exit(0);
	pthread_cleanup_pop(1);
	return arg;
}

static int threads(void)
{
	int n = 8;
	for (int i = 0; i < 4; i++) {
		pthread_t t;
		pthread_create(&t, 0, thread, &n);
		pthread_join(t, 0);
	}
	return n;
}

void events(int with_faults)
{
	atexit(at_exit);
	on_exit(on_exit_handler, (void *)7);
	show("jumps", jumps());
	signals();
	if (with_faults)
		faults();
	show("ifunc", chosen(1) + chosen(2));
	contexts();
	show("order", order);
	show("threads", threads());
}
