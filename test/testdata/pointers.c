/* Calls and jumps by pointers, of many callees, in threads that are pinned, in a handler that
 * a timer has come at any moment, and in a child, which with "steps" its parent has take a
 * signal at each instruction that is not the program's own. Says how often each place has
 * called each callee; and what a handler saw wrong of a thread in front of such a call. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
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

typedef long callee(long);

#define CALLEE(n) \
	NOINLINE long f##n(long x) { return x * (n + 1) + n; }
#define EACH(m) m(0) m(1) m(2) m(3) m(4) m(5) m(6) m(7) m(8) m(9) m(10) m(11) m(12) m(13) m(14) m(15) m(16) m(17) m(18) m(19)
EACH(CALLEE)
#define POINTER(n) f##n,
static callee *const callees[] = {EACH(POINTER)};
enum { CALLEES = sizeof callees / sizeof *callees };

struct object { long pad[2]; callee *call, *far[40]; };
callee *global;

NOINLINE static long by_register(callee *f, long x) { return f(x) + 1; }
NOINLINE static long by_memory(struct object *o, long x) { return o->call(x) + 2; }
NOINLINE static long by_index(struct object *o, long x, long i) { return o->far[i](x) + 3; }
NOINLINE static long by_global(long x) { return global(x) + 4; }
NOINLINE static long by_tail(struct object *o, long x) { return o->call(x); }
NOINLINE static long by_stack(callee *f, long x)
{
	struct { callee *volatile f; } on_stack = {f};
	return on_stack.f(x) + 5;
}

/* Places of which a handler knows what is in registers. */
long probe_register(callee *f), probe_memory(callee **f);
extern const char in_register[], in_memory[];
uint64_t stack;
#define PROBE(name, place, pointer) \
	".pushsection .text\n.globl " #name ", " #place "\n.type " #name ", @function\n" #name ":\n" \
	"	push %rbx\n	mov %rdi, %rbx\n	mov %rsp, stack(%rip)\n" \
	"	mov $0x1111, %eax\n	mov $0x2222, %ecx\n	mov $0x3333, %edx\n	mov $7, %edi\n" \
	#place ":\n	call *" pointer "\n	pop %rbx\n	ret\n.size " #name ", . - " #name "\n.popsection\n"
__asm__(PROBE(probe_register, in_register, "%rbx") PROBE(probe_memory, in_memory, "(%rbx)"));

enum place { REGISTER, MEMORY, INDEX, GLOBAL, TAIL, STACK, PROBE_REGISTER, PROBE_MEMORY, PLACES };
static const char *const names[] = {"by_register", "by_memory", "by_index", "by_global", "by_tail", "by_stack", "probe_register", "probe_memory"};
static long *called; /* by place and callee; of all processes */

static void count(enum place p, int k) { __atomic_fetch_add(&called[p * CALLEES + k], 1, __ATOMIC_RELAXED); }

static long all(int k, long x)
{
	struct object o = {.call = callees[k]};
	o.far[k] = callees[k];
	for (enum place p = 0; p <= STACK; p++)
		if (p != GLOBAL)
			count(p, k);
	return by_register(callees[k], x) + by_memory(&o, x) + by_index(&o, x, k) + by_tail(&o, x) + by_stack(callees[k], x);
}

static volatile sig_atomic_t *struck, *wrong, *handling; /* of all processes */
static volatile long sink;
static int steps;

static void handle(int sig, siginfo_t *info, void *context)
{
	const greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t at = (uint64_t)g[REG_RIP];
	static int k;
	(void)sig, (void)info;
	++*handling;
	if (at == (uint64_t)in_register || at == (uint64_t)in_memory) {
		++*struck;
		if (g[REG_RAX] != 0x1111 || g[REG_RCX] != 0x2222 || g[REG_RDX] != 0x3333 || g[REG_RDI] != 7 || (uint64_t)g[REG_RSP] != stack)
			++*wrong;
	}
	k = (k + 3) % CALLEES;
	if (!steps)
		sink += all(k, 5);
	uint64_t kept = stack;
	count(PROBE_REGISTER, k);
	count(PROBE_MEMORY, k);
	callee *f = callees[k];
	sink += probe_register(f) + probe_memory(&f);
	stack = kept;
	--*handling;
}

static void *work(void *arg)
{
	long n = (long)arg, sum = 0;
	sigset_t alarm;
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, 0);
	pin((int)n);
	for (long i = 0; i < 4000; i++)
		sum += all((int)((i * n) % CALLEES), i);
	return (void *)sum;
}

static long probes(long n)
{
	long sum = 0;
	for (long i = 0; i < n; i++) {
		int k = (int)(i % 7 * i % CALLEES);
		callee *f = callees[k];
		count(PROBE_REGISTER, k);
		sum += probe_register(f);
		count(PROBE_MEMORY, k);
		sum += probe_memory(&f);
		count(GLOBAL, k);
		global = f;
		sum += by_global(i);
	}
	return sum;
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
	enum { NEAR = 64 << 20 };
	uint64_t low = (uint64_t)__executable_start, high = (uint64_t)etext;
	return at - (low - NEAR) < high - low + 2 * NEAR && at - low >= high - low;
}

/* Steps the child, with a signal before each instruction there. */
static void step(pid_t child)
{
	int status;
	waitpid(child, &status, 0);
	for (long with = 0; ptrace(PTRACE_SINGLESTEP, child, 0, with) == 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status);) {
		struct user_regs_struct r;
		ptrace(PTRACE_GETREGS, child, 0, &r);
		with = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
		if (!with && !*handling && is_beside(r.rip) && is_new(r.rip))
			with = SIGALRM;
	}
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 1000, sum = 0;
	steps = argc > 2 && strcmp(argv[2], "steps") == 0;
	pthread_t threads[4];
	called = mmap(0, PLACES * CALLEES * sizeof *called + 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struck = (volatile sig_atomic_t *)(called + PLACES * CALLEES);
	wrong = struck + 1;
	handling = wrong + 1;
	if (argc > 2) {
		struct sigaction act = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART};
		struct itimerval often = {{0, 200}, {0, 200}};
		sigaction(SIGALRM, &act, 0);
		if (!steps)
			setitimer(ITIMER_REAL, &often, 0);
	}
	for (long i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, work, (void *)i);
	sum += probes(n);
	for (int i = 0; i < 4; i++) {
		void *got;
		pthread_join(threads[i], &got);
		sum += (long)got;
	}
	pid_t child = fork();
	if (child == 0) {
		if (steps) {
			ptrace(PTRACE_TRACEME, 0, 0, 0);
			raise(SIGSTOP);
		}
		sum = probes(steps ? 4 : n) + all(1, 1) + all(2, 2) + all(1, 3);
		_exit(0);
	}
	if (steps)
		step(child);
	while (waitpid(child, 0, 0) < 0 && errno == EINTR)
		;
	struct itimerval never = {{0, 0}, {0, 0}};
	setitimer(ITIMER_REAL, &never, 0);
	for (int p = 0; p < PLACES; p++)
		for (int k = 0; k < CALLEES; k++)
			if (called[p * CALLEES + k])
				printf("%s f%d %ld\n", names[p], k, called[p * CALLEES + k]);
	printf("sum %ld\n", argc > 2 ? 0 : sum);
	fprintf(stderr, "%d struck, %d wrong\n", *struck, *wrong);
	return 0;
}
