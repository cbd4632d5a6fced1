/* Somebody attaches while threads are in handlers of signals that have struck them anywhere:
 * in front of, in and behind the bytes that are overwritten, in bodies that are moved, and on
 * stacks of their own. What is computed tells whether each goes on where it was: the same again
 * and again, until a line arrives, and as it was before anybody attached. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone))
enum { THREADS = 4, STACK = 64 << 10 };

KEPT uint64_t small(uint64_t x) { return (x << 7 | x >> 57) * 0x9e3779b97f4a7c15; }
KEPT uint64_t circle(uint64_t x, uint64_t n)
{
	do
		x = (x ^ n) * 5;
	while (--n);
	return x;
}
KEPT uint64_t branch(uint64_t x)
{
	if (x & 1)
		return x * 3 + 1;
	return x >> 1;
}
/* Mostly somebody is at its second instruction, which is overwritten. */
uint64_t sweep(uint32_t n, const uint8_t *from);
__asm__(".text\n.globl sweep\n.type sweep, @function\n"
	"sweep:\n.cfi_startproc\n"
	"	mov	%edi, %ecx\n"
	"	rep lodsb\n"
	"	movzbl	%al, %eax\n"
	"	ret\n"
	".cfi_endproc\n.size sweep, . - sweep\n");
static uint8_t bytes[32 << 10];

KEPT uint64_t across(uint64_t x) { return small(x) + branch(x ^ 0x5555) + circle(x, 3); }

static uint64_t handled;
static int over;

static void handler(int sig)
{
	struct timespec t = {0, 600 * 1000};
	(void)sig;
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
	nanosleep(&t, 0); /* mostly somebody is here */
}

struct own {
	uint64_t right, wrong;
	int apart;
	char stack[STACK];
};
static struct own all[THREADS];

enum { ROUNDS = 1000 };

static uint64_t compute(void)
{
	uint64_t x = 1;
	for (int i = 0; i < ROUNDS; i++)
		x = circle(branch(small(x)), 5) + across(x) + sweep((uint32_t)(x % sizeof bytes) + 1, bytes);
	return x;
}

static void *work(void *arg)
{
	struct own *o = arg;
	stack_t s = {.ss_sp = o->stack, .ss_size = STACK};
	if (o->apart)
		sigaltstack(&s, 0);
	struct sigevent e = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = o->apart ? SIGUSR1 : SIGUSR2};
	e._sigev_un._tid = (int)syscall(SYS_gettid);
	struct itimerspec every = {{0, 1000 * 1000}, {0, 1000 * 1000}};
	timer_t t;
	if (timer_create(CLOCK_MONOTONIC, &e, &t) != 0 || timer_settime(t, 0, &every, 0) != 0)
		exit(2);
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
		o->wrong += compute() != o->right;
	timer_delete(t);
	return 0;
}

int main(void)
{
	pthread_t t[THREADS];
	uint64_t wrong = 0;
	for (uint32_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 7);
	uint64_t right = compute();
	struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART}, b = a;
	b.sa_flags |= SA_ONSTACK;
	sigaction(SIGUSR2, &a, 0);
	sigaction(SIGUSR1, &b, 0);
	for (int i = 0; i < THREADS; i++) {
		all[i].right = right;
		all[i].apart = i & 1;
		pthread_create(&t[i], 0, work, &all[i]);
	}
	printf("ready\n");
	fflush(stdout);
	getchar();
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], 0);
		wrong += all[i].wrong;
	}
	printf("wrong %llu\n", (unsigned long long)wrong);
	return handled == 0;
}
