/* Loops whose trips are known, in threads that are pinned, in a handler that a timer has come
 * at any moment, and in a child, which with "steps" its parent has take a signal at each
 * instruction that is not the program's own. Says of each loop how many executions with how
 * many trips have ended, and how many were entered besides, and what a handler saw wrong. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "pin.h"

#define NOINLINE __attribute__((noipa))
#define OPAQUE(i) __asm__ volatile("" : "+r"(i))

enum loop { ONCE, CALLS, OUTER, INNER, LEAVES, SKIPS, HUGE, RECURSES, JUMPED, THROWN, CAUGHT, CATCHES, FORKED, TURNS, GROWS, PROBE, LOOPS };
static const char *const names[] = {"once", "calls", "nested 1", "nested 2", "leaves", "skips", "huge", "recurses", "jumped", "thrown", "caught", "catches", "forked", "turns", "grows", "probe"};
enum { MOST = 64, LARGE = 140 * 1000 * 1000 };

struct ran {
	long ended[LOOPS][MOST], lost[LOOPS]; /* of all processes; by trips, 0 is LARGE */
	volatile long struck, wrong, handling;
};
static struct ran *ran;

static void ended(enum loop l, int trips) { __atomic_fetch_add(&ran->ended[l][trips], 1, __ATOMIC_RELAXED); }
static void lost(enum loop l, long n) { __atomic_fetch_add(&ran->lost[l], n, __ATOMIC_RELAXED); }

extern "C" {
thread_local volatile long sink;

NOINLINE void leaf(int x) { sink = x; }

NOINLINE void once(int n)
{
	int i = 0;
	do
		OPAQUE(i);
	while (++i < n);
}

NOINLINE void calls(int n)
{
	int i = 0;
	do
		leaf(i);
	while (++i < n);
}

NOINLINE void nested(int n)
{
	int i = 0;
	do {
		int k = 0;
		do
			OPAQUE(k);
		while (++k <= i);
	} while (++i < n);
}

/* Left at the n-th trip, in one of four ways. */
NOINLINE int leaves(int n, int how)
{
	int i = 0;
	for (;;) {
		i++;
		OPAQUE(i);
		if (i == n && how == 0)
			break;
		if (i == n && how == 1)
			goto out;
		leaf(i);
		if (i == n && how == 2)
			return 5;
		if (i == n && how == 3) {
			leaf(7);
			goto out;
		}
	}
	sink = 3;
out:
	return sink;
}

NOINLINE void skips(int n)
{
	int i = 0;
	do {
		OPAQUE(i);
		if (i & 1)
			continue;
		leaf(i);
	} while (++i < n);
}

NOINLINE void huge(long n)
{
	long i = 0;
	do
		OPAQUE(i);
	while (++i < n);
}

void recurses(int depth);
NOINLINE void deeper(int depth)
{
	if (depth > 0)
		recurses(depth - 1);
}

NOINLINE void recurses(int depth)
{
	int i = 0;
	do {
		leaf(i);
		if (sink == 1)
			deeper(depth);
	} while (++i < 4);
}

static jmp_buf away;
NOINLINE void jumps(int yes) { if (yes) longjmp(away, 1); }

NOINLINE void jumped(int n, int out)
{
	int i = 0;
	do
		jumps(i == out);
	while (++i < n);
}

NOINLINE void throws(int yes) { if (yes) throw 1; }

NOINLINE void thrown(int n, int out)
{
	int i = 0;
	do
		throws(i == out);
	while (++i < n);
}

/* Left by what it catches. */
NOINLINE int caught(int n)
{
	int i = 0;
	try {
		do
			throws(i == n - 1);
		while (++i < MOST);
	} catch (int) {
		return 1;
	}
	return 0;
}

/* Goes on behind what it catches. */
NOINLINE void catches(int n)
{
	int i = 0;
	do {
		try {
			throws(i & 1);
		} catch (int) {
			sink = i;
		}
	} while (++i < n);
}

/* What a child does in the loop that it was forked in. There are so many that some get rows of
 * those before. */
enum { CHILDREN = 30 };
static int child;
static void wait_for(pid_t pid) { while (waitpid(pid, 0, 0) < 0 && errno == EINTR); }

NOINLINE void forks(int i)
{
	if (child == 2 && i == 2)
		_exit(0); /* in an execution of its own, with the stack pointer of its parent's */
	if (child || i >= CHILDREN)
		return;
	pid_t pid = fork();
	if (pid == 0)
		child = 1;
	else
		wait_for(pid);
}

NOINLINE void forked(int n)
{
	int i = 0;
	do
		forks(i);
	while (++i < n);
}

NOINLINE void in_children(void)
{
	for (int again = 0; again < 2; again++) {
		forked(CHILDREN + 5);
		if (!child)
			break;
		child = 2; /* the next owner of the row is a child that goes on in an execution of its parent's */
	}
}

/* Contexts on stacks of their own that go through a loop by turns. */
static ucontext_t contexts[2], back;
static int with; /* another */

NOINLINE void turn(int me)
{
	if (with)
		swapcontext(&contexts[me], &contexts[1 - me]);
}

NOINLINE void turns(int n, int me)
{
	int i = 0;
	do
		turn(me);
	while (++i < n);
	with = 0; /* the other goes on alone */
}

static void take_turns(int n)
{
	static char stacks[2][64 << 10];
	for (int i = 0; i < 2; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = stacks[i];
		contexts[i].uc_stack.ss_size = sizeof stacks[i];
		contexts[i].uc_link = i == 0 ? &contexts[1] : &back;
		makecontext(&contexts[i], (void (*)(void))turns, 2, n, i);
	}
	with = 1;
	swapcontext(&back, &contexts[0]);
}

NOINLINE void grows(int n)
{
	int i = 0;
	do
		sink = (long)memset(__builtin_alloca(32 + (i & 1)), i, 32);
	while (++i < n);
}

/* A loop of which a handler knows what is in registers, and on the stack. */
void probe(long n);
extern const char in_loop[], behind_loop[];
uint64_t stack;
}
__asm__(".pushsection .text\n.globl probe, in_loop, behind_loop\n.type probe, @function\nprobe:\n"
	"	movq $0x4444, -8(%rsp)\n	movq $0x5555, -128(%rsp)\n	mov %rsp, stack(%rip)\n"
	"	mov $0x1111, %eax\n	mov $0x2222, %ecx\n	mov $0x3333, %edx\n"
	"in_loop:\n	nop\n	dec %rdi\n	jne in_loop\n"
	"behind_loop:\n	mov $0x6666, %esi\n	cmpq $0x4444, -8(%rsp)\n	jne 1f\n	cmpq $0x5555, -128(%rsp)\n	jne 1f\n"
	"	cmp $0x1111, %rax\n	jne 1f\n	cmp $0x2222, %rcx\n	jne 1f\n	ret\n"
	"1:	ud2\n.size probe, . - probe\n.popsection\n");

static void execute(int k)
{
	int n = 1 + k % (MOST - 1), how = k % 4;
	once(n), ended(ONCE, n);
	calls(n), ended(CALLS, n);
	nested(n), ended(OUTER, n);
	for (int i = 1; i <= n; i++)
		ended(INNER, i);
	leaves(n, how), ended(LEAVES, n);
	skips(n), ended(SKIPS, n);
	recurses(k % 3), ended(RECURSES, 4), lost(RECURSES, k % 3); /* the outer ones */
	caught(n), ended(CAUGHT, n);
	catches(n), ended(CATCHES, n);
	try {
		thrown(n, how < 2 ? -1 : n - 1);
		ended(THROWN, n);
	} catch (int) {
		lost(THROWN, 1);
	}
}

static void probes(int n)
{
	probe(n), ended(PROBE, n);
}

static int steps, again;

static void handle(int, siginfo_t *, void *context)
{
	const greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t at = (uint64_t)g[REG_RIP];
	ran->handling = ran->handling + 1;
	if (at == (uint64_t)in_loop || at == (uint64_t)behind_loop) {
		ran->struck = ran->struck + 1;
		const uint64_t *top = (const uint64_t *)g[REG_RSP];
		if (g[REG_RAX] != 0x1111 || g[REG_RCX] != 0x2222 || g[REG_RDX] != 0x3333 || (uint64_t)g[REG_RSP] != stack || top[-1] != 0x4444 || top[-16] != 0x5555)
			ran->wrong = ran->wrong + 1;
	}
	if (again) { /* the same loops, and trips */
		uint64_t kept = stack;
		probes(10);
		calls(10), ended(CALLS, 10);
		stack = kept;
	}
	ran->handling = ran->handling - 1;
}

static void *work(void *arg)
{
	sigset_t alarm;
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, 0);
	pin((int)(long)arg);
	for (int i = 0; i < 500; i++)
		execute((int)(long)arg + i);
	return 0;
}

extern const char __executable_start[], etext[];

/* Whether an address is met for the first time. */
static int is_new(uint64_t at)
{
	static uint64_t seen[1 << 16];
	uint64_t i = at * 0x9e3779b97f4a7c15 >> 48;
	while (seen[i] && seen[i] != at)
		i = (i + 1) % (sizeof seen / sizeof *seen);
	return seen[i] != at ? seen[i] = at, 1 : 0;
}

/* Whether an address is near the program, but not in it: what runs in its place is. */
static int is_beside(uint64_t at)
{
	const uint64_t near = 64 << 20;
	uint64_t low = (uint64_t)__executable_start, high = (uint64_t)etext;
	return at - (low - near) < high - low + 2 * near && at - low >= high - low;
}

/* Steps the child, with a signal before each instruction there. */
static void step(pid_t pid)
{
	int status;
	waitpid(pid, &status, 0);
	for (long with = 0; ptrace(PTRACE_SINGLESTEP, pid, 0, with) == 0 && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status);) {
		struct user_regs_struct r;
		ptrace(PTRACE_GETREGS, pid, 0, &r);
		with = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
		if (!with && !ran->handling && is_beside(r.rip) && is_new(r.rip))
			with = SIGALRM;
	}
}

/* Loops with 10 trips, so that nothing else is right, whoever interrupts them. */
static void interrupted(int n)
{
	for (int i = 0; i < n; i++) {
		probes(10);
		calls(10), ended(CALLS, 10);
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 100;
	ran = (struct ran *)mmap(0, sizeof *ran, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	steps = strncmp(how, "steps", 5) == 0;
	again = strstr(how, "again") != 0;
	struct sigaction act = {};
	act.sa_sigaction = handle;
	act.sa_flags = SA_SIGINFO | SA_RESTART;
	sigaction(SIGALRM, &act, 0);
	if (strncmp(how, "timer", 5) == 0) {
		struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
		setitimer(ITIMER_REAL, &often, 0);
		interrupted(n);
		setitimer(ITIMER_REAL, &never, 0);
	} else if (steps) {
		pid_t pid = fork();
		if (pid == 0) {
			ptrace(PTRACE_TRACEME, 0, 0, 0);
			raise(SIGSTOP);
			interrupted(n);
			_exit(0);
		}
		step(pid);
	} else {
		pthread_t threads[4];
		for (long i = 0; i < 4; i++)
			pthread_create(&threads[i], 0, work, (void *)i);
		for (int i = 0; i < n; i++)
			execute(i);
		for (volatile int i = 1; i < 10; i = i + 1)
			if (!setjmp(away)) {
				jumped(i, i == 5 || i == 8 ? i - 1 : -1);
				ended(JUMPED, i);
			} else {
				lost(JUMPED, 1);
			}
		huge(LARGE), ended(HUGE, 0);
		in_children();
		if (child)
			_exit(0);
		ended(FORKED, CHILDREN + 5), lost(FORKED, CHILDREN); /* those of the children that they have themselves entered */
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], 0);
		probes(3);
		take_turns(9), lost(TURNS, 2);
		turns(9, 0), ended(TURNS, 9);
		grows(7), grows(1), lost(GROWS, 2);
	}
	for (int l = 0; l < LOOPS; l++)
		for (int k = 0; k < MOST; k++)
			if (ran->ended[l][k])
				printf("%s: %d %ld\n", names[l], k ? k : LARGE, ran->ended[l][k]);
	for (int l = 0; l < LOOPS; l++)
		if (ran->lost[l])
			printf("%s: lost %ld\n", names[l], ran->lost[l]);
	fprintf(stderr, "%ld struck, %ld wrong\n", ran->struck, ran->wrong);
	return 0;
}
