/* A program that sends its own calls elsewhere: the argument says what to try. */
#define _GNU_SOURCE
#include <dynprof.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "expect.h"

OWN long plain(long x) { __asm__ volatile("" ::: "memory"); return 3 * x + 1; }
OWN long other(long x) { __asm__ volatile("" ::: "memory"); return x + 1000000; }
OWN long third(long x) { __asm__ volatile("" ::: "memory"); return x + 2000000; }
OWN long tail(long x) { return plain(x + 1); } /* jmp plain */
long exported(long x);
OWN long through_plt(long x) { return exported(x); }

/* Adds the caller's carry: the flags are an argument. */
long carries(long x, int carry);
long carries_more(long x, int carry);
long call_with_carry(long (*f)(long), long x, int carry);
__asm__(".text\n"
	".type carry_in, @function\ncarry_in: mov $0, %eax; adc %rdi, %rax; ret\n.size carry_in, .-carry_in\n"
	".type carry_out, @function\ncarry_out: mov $500, %eax; adc %rdi, %rax; ret\n.size carry_out, .-carry_out\n"
	".type call_with_carry, @function\n"
	"call_with_carry: mov %rdi, %r8; mov %rsi, %rdi; neg %edx; call *%r8; ret\n"
	".size call_with_carry, .-call_with_carry\n");
extern char carry_in[], carry_out[];

static int64_t number(const char *name)
{
	int64_t n = dynprof_find(0, name);
	if (n < 0) {
		printf("no %s: %ld\n", name, (long)n);
		exit(1);
	}
	return n;
}

/* Code at an address: adds a constant to its argument. */
static void *code_at(void *where, int32_t add)
{
	int fixed = where ? MAP_FIXED_NOREPLACE : 0;
	uint8_t *at = mmap(where, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
	if (at == MAP_FAILED)
		return 0;
	uint8_t lea[] = {0x48, 0x8d, 0x87, 0, 0, 0, 0, 0xc3}; /* lea add(%rdi),%rax; ret */
	memcpy(lea + 3, &add, 4);
	memcpy(at, lea, sizeof lea);
	mprotect(at, 4096, PROT_READ | PROT_EXEC);
	return at;
}

static void ways(void)
{
	long (*volatile pointer)(long) = plain;
	int64_t f = number("plain"), far;
	long before = dynprof_calls_of(f);
	expect("direct", plain(1), 4);
	expect("redirect", dynprof_redirect(f, (void *)other, 1), 0);
	expect("direct", plain(1), 1000001);
	expect("pointer", pointer(2), 1000002);
	expect("tail", tail(2), 1000003);
	expect("counted", dynprof_calls_of(f) - before, 4);
	expect("again", dynprof_redirect(f, (void *)third, 1), 0);
	expect("direct", plain(1), 2000001);
	long (*original)(long) = (long (*)(long))dynprof_original(f);
	expect("original", original(1), 4);
	expect("counted", dynprof_calls_of(f) - before, 5);
	expect("uncounted", dynprof_redirect(f, (void *)other, 0), 0);
	expect("direct", plain(1), 1000001);
	expect("rearm", dynprof_rearm(f, 3), -61);
	expect("not counted", dynprof_calls_of(f) - before, 5);
	expect("restore", dynprof_restore(f), 0);
	expect("direct", plain(1), 4);
	expect("counted", dynprof_calls_of(f) - before, 6);
	for (uint64_t where = 0x10000000; where < 0x7f0000000000; where *= 7) {
		void *code = code_at((void *)where, (int32_t)(where >> 20));
		if (!code)
			continue;
		expect("far", dynprof_redirect(f, code, 1), 0);
		expect("far", plain(5), 5 + (int32_t)(where >> 20));
	}
	expect("restore", dynprof_restore(f), 0);

	int64_t lib = number("exported");
	expect("plt", through_plt(7), 70);
	expect("redirect", dynprof_redirect(lib, (void *)other, 1), 0);
	expect("plt", through_plt(7), 1000007);
	expect("restore", dynprof_restore(lib), 0);
	expect("plt", through_plt(7), 70);

	/* Pausing goes on. */
	expect("redirect", dynprof_redirect(f, (void *)other, 1), 0);
	before = dynprof_calls_of(f);
	expect("pause", dynprof_pause(), 0);
	expect("paused", plain(1), 1000001);
	expect("redirect", dynprof_redirect(lib, (void *)other, 1), 0);
	expect("paused", through_plt(1), 1000001);
	expect("rearm", dynprof_rearm(f, 1), 0);
	expect("paused", plain(1), 1000001);
	expect("uncounted", dynprof_calls_of(f) - before, 0);
	expect("resume", dynprof_resume(), 0);
	expect("resumed", plain(1), 1000001);
	expect("counted", dynprof_calls_of(f) - before, 1);
	expect("restore", dynprof_restore(f), 0);
	(void)far;
}

static void flags(void)
{
	int64_t f = dynprof_find_address(carry_in);
	for (int round = 0; round < 3; round++) {
		long add = round == 1 ? 500 : 0;
		for (int carry = 0; carry < 2; carry++)
			expect("carry", call_with_carry((void *)carry_in, 10, carry), 10 + add + carry);
		expect("redirect", round ? dynprof_restore(f) : dynprof_redirect(f, carry_out, 1 | DYNPROF_RAW), 0);
	}
	expect("calls", dynprof_calls_of(f), 6);
	expect("rearm", dynprof_rearm(f, 2), 0);
	for (int carry = 0; carry < 2; carry++) /* through lap and cold path */
		expect("carry", call_with_carry((void *)carry_in, 10, carry), 10 + carry);
	expect("redirect", dynprof_redirect(f, carry_out, 1 | DYNPROF_RAW), 0);
	expect("rearm", dynprof_rearm(f, 1), 0);
	for (int carry = 0; carry < 2; carry++)
		expect("carry", call_with_carry((void *)carry_in, 10, carry), 510 + carry);
	expect("calls", dynprof_calls_of(f), 10);
	expect("uncounted", dynprof_redirect(f, carry_out, DYNPROF_RAW), 0);
	for (int carry = 0; carry < 2; carry++)
		expect("carry", call_with_carry((void *)carry_in, 10, carry), 510 + carry);
	expect("calls", dynprof_calls_of(f), 10);
}

/* A signal handler at every instruction sees none of ours, and the registers that
 * the function has at its entry. */
extern char __executable_start[], __etext[];
static long strange, steps, at_entry, carry_at_entry;
static void on_step(int sig, siginfo_t *info, void *context)
{
	greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t rip = (uint64_t)g[REG_RIP];
	(void)sig, (void)info;
	steps++;
	strange += rip < (uint64_t)__executable_start || rip >= (uint64_t)__etext;
	if (rip == (uint64_t)carry_in) {
		at_entry++;
		carry_at_entry += g[REG_EFL] & 1;
		strange += g[REG_RDI] != 10 || *(uint64_t *)g[REG_RSP] - (uint64_t)call_with_carry > 64;
	}
}
long stepped(long (*f)(long), long x, int carry);
__asm__(".text\n.type stepped, @function\nstepped: pushfq; orl $0x100, (%rsp); popfq; call call_with_carry; pushfq; andl $~0x100, (%rsp); popfq; ret\n.size stepped, .-stepped\n");

static void steps_through(const char *what, long add)
{
	strange = steps = at_entry = carry_at_entry = 0;
	for (int carry = 0; carry < 2; carry++)
		expect(what, stepped((void *)carry_in, 10, carry), 10 + add + carry);
	expect("strange", strange, 0);
	expect("half of them carry", at_entry - 2 * carry_at_entry, 0);
	if (at_entry < 4 || steps < 30) {
		printf("%s: %ld steps, %ld at the entry\n", what, steps, at_entry);
		wrong = 1;
	}
}

static void watched(void)
{
	struct sigaction act = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	sigaction(SIGTRAP, &act, 0);
	int64_t f = dynprof_find_address(carry_in);
	for (int i = 0; i < 3; i++)
		stepped((void *)carry_in, 10, 0), stepped((void *)carry_out, 10, 0); /* thresholds are behind us */
	steps_through("as it is", 0);
	expect("redirect", dynprof_redirect(f, carry_out, 1 | DYNPROF_RAW), 0);
	steps_through("counted", 500);
	expect("rearm", dynprof_rearm(f, 1000), 0);
	steps_through("armed", 500);
	expect("restore", dynprof_restore(f), 0);
	steps_through("armed", 0);
	expect("redirect", dynprof_redirect(f, carry_out, DYNPROF_RAW), 0);
	steps_through("uncounted", 500);
	expect("pause", dynprof_pause(), 0);
	expect("redirect", dynprof_redirect(f, carry_out, 1 | DYNPROF_RAW), 0);
	steps_through("paused", 500);
	expect("resume", dynprof_resume(), 0);
}

static void refused(void)
{
	int64_t f = number("plain");
	static long data;
	void *gone = code_at(0, 1);
	munmap(gone, 4096);
	expect("null", dynprof_redirect(f, 0, 1), -22);
	expect("data", dynprof_redirect(f, &data, 1), -22);
	expect("unmapped", dynprof_redirect(f, gone, 1), -22);
	expect("itself", dynprof_redirect(f, (void *)plain, 1), -22);
	expect("nobody", dynprof_redirect(-1, (void *)other, 1), -2);
	expect("nobody", dynprof_redirect(1 << 30, (void *)other, 1), -2);
	expect("never", dynprof_rearm(f, 0), -22);
	expect("most", dynprof_rearm(f, DYNPROF_MOST_CALLS), 0);
	expect("more", dynprof_rearm(f, DYNPROF_MOST_CALLS + 1), -22);
	expect("works", plain(1), 4);
}

/* Threads call while calls are sent to and fro: each sees one of the results. */
enum { THREADS = 4 };
static atomic_int stop;
static atomic_long made;

static void *caller(void *arg)
{
	long n = 0, x = (long)arg, bad = 0;
	while (!stop) {
		long r = plain(x);
		bad += r != 3 * x + 1 && r != x + 1000000 && r != x + 2000000;
		n++;
	}
	if (bad)
		printf("%ld results of nobody\n", bad), wrong = 1;
	made += n;
	return 0;
}

static void live(int rounds)
{
	pthread_t t[THREADS];
	int64_t f = number("plain");
	long before = dynprof_calls_of(f);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&t[i], 0, caller, (void *)(i + 5));
	for (int i = 0; i < rounds; i++) {
		expect("redirect", dynprof_redirect(f, i % 2 ? (void *)other : (void *)third, 1), 0);
		if (i % 3 == 0)
			expect("rearm", dynprof_rearm(f, (uint64_t)(i + 1)), 0);
		if (i % 5 == 0)
			expect("restore", dynprof_restore(f), 0);
		if (i % 1000 == 0)
			usleep(1000);
	}
	stop = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], 0);
	expect("calls", dynprof_calls_of(f) - before, made);
}

/* A thread that is inside the function when it is redirected stays there. */
static atomic_int inside, go;
OWN long waits(long x)
{
	inside = 1;
	while (!go)
		sched_yield();
	return x + 1;
}
static void *in_the_middle(void *arg) { return (void *)waits((long)arg); }

static void middle(void)
{
	pthread_t t;
	void *result;
	pthread_create(&t, 0, in_the_middle, (void *)5);
	while (!inside)
		sched_yield();
	expect("redirect", dynprof_redirect(number("waits"), (void *)other, 1), 0);
	expect("others", waits(5), 1000005);
	go = 1;
	pthread_join(t, &result);
	expect("the one inside", (long)result, 6);
}

/* What a child has before and after it is made. */
static void forks(void)
{
	int64_t f = number("plain");
	expect("redirect", dynprof_redirect(f, (void *)other, 1), 0);
	for (int i = 0; i < 3; i++) {
		pid_t child = fork();
		if (child == 0) {
			expect("in the child", plain(1), i == 2 ? 4 : 1000001);
			expect("child's own", dynprof_redirect(f, (void *)third, 1), 0);
			expect("in the child", plain(1), 2000001);
			fflush(stdout);
			_exit(wrong);
		}
		int status = 1;
		waitpid(child, &status, 0);
		expect("status", status, 0);
		expect("in the parent", plain(1), i == 2 ? 4 : 1000001);
		if (i == 1)
			expect("restore", dynprof_restore(f), 0);
	}
}

/* Armed again and again: so many events there must be, one each, of 120 calls by one thread or
 * by all of them together. */
static void *calls_plain(void *arg)
{
	for (long i = 0; i < (long)arg; i++)
		plain(i);
	return 0;
}

static void rearms(int rounds, int threads)
{
	pthread_t t[THREADS];
	int64_t f = number("plain");
	for (int i = 0; i < rounds; i++) {
		expect("rearm", dynprof_rearm(f, 100), 0);
		for (int k = 0; k < threads; k++)
			pthread_create(&t[k], 0, calls_plain, (void *)(120L / threads));
		for (int k = 0; k < threads; k++)
			pthread_join(t[k], 0);
		if (i % 2)
			expect("redirect", dynprof_redirect(f, (void *)other, 1), 0);
		else
			expect("restore", dynprof_restore(f), 0);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 0;
	if (!strcmp(mode, "ways"))
		ways();
	else if (!strcmp(mode, "flags"))
		flags();
	else if (!strcmp(mode, "watched"))
		watched();
	else if (!strcmp(mode, "refused"))
		refused();
	else if (!strcmp(mode, "live"))
		live(n);
	else if (!strcmp(mode, "middle"))
		middle();
	else if (!strcmp(mode, "forks"))
		forks();
	else if (!strcmp(mode, "rearms"))
		rearms(n, argc > 3 ? 1 : THREADS);
	puts(wrong ? "wrong" : "ok");
	return wrong;
}
