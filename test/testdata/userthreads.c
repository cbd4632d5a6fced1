/* Preemptive user threads: a timer's handler saves the context that it interrupted
 * and installs another thread's, on as many kernel threads as the first argument
 * says. The second is how often each user thread does its work. How often that
 * calls what is known. With a third argument the handler installs a scheduler, which
 * resumes the next thread by a system call of its own. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "expect.h"
#ifdef FRONTS /* it makes a run with a translator, whose stubs have fronts */
#include "dynprof.h"
#endif

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { THREADS = 5, STACK = 64 << 10 };

struct thread {
	gregset_t registers;
	struct _libc_fpstate fp;
	volatile long rounds;
	ucontext_t frame; /* by which it is resumed */
	char spare[4096] __attribute__((aligned(64)));
	char stack[STACK] __attribute__((aligned(64)));
};

static struct thread all[THREADS], *waiting[THREADS];
static __thread struct thread *running; /* initial-exec: a handler may read it */
static volatile int done, stop, by_hand;
static long limit, switches;

/* ---- what is interrupted: entries of all kinds -------------------------- */

OWN long leaf(long x) /* whole */
{
	__asm__ volatile("");
	return x * 3 + 1;
}

OWN long inner(long x, volatile long *rounds) /* jumps back */
{
	long r = leaf(x) + leaf(x + 1);
	*rounds += 1;
	return r;
}

long carries(long x); /* reads a flag that its caller sets */
long turns(long n);   /* its loop leads to its entry */
__asm__(".text\n.globl carries, turns\n"
	".type carries,@function\n"
	"carries: mov $0,%eax\n adc %rdi,%rax\n ret\n .size carries,.-carries\n"
	".p2align 4\n"
	".type turns,@function\n"
	"turns: lea 1(%rax),%rax\n dec %rdi\n jnz turns\n ret\n .size turns,.-turns\n"
	".p2align 4\n");

static void work(struct thread *t)
{
	volatile long sum = 0;
	for (long i = 0; i < limit; i++) {
		sum += inner(i, &t->rounds);
		sum += carries(i);
		if (i % 8 == 0)
			sum += turns(20);
	}
	__atomic_add_fetch(&done, 1, __ATOMIC_SEQ_CST);
	for (;;)
		__asm__ volatile("pause");
}

/* ---- the scheduler ------------------------------------------------------ */

/* A context that waits belongs to whoever takes it from its place. */
static struct thread *take(void)
{
	for (int i = 0; i < THREADS; i++) {
		int at = (int)((unsigned long)switches + (unsigned)i) % THREADS;
		struct thread *t = __atomic_exchange_n(&waiting[at], 0, __ATOMIC_ACQ_REL);
		if (t)
			return t;
	}
	return 0;
}

static void put(struct thread *t)
{
	for (int i = 0;; i = (i + 1) % THREADS) {
		struct thread *none = 0;
		if (__atomic_compare_exchange_n(&waiting[i], &none, t, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return;
	}
}

void resume(ucontext_t *frame);
__asm__(".text\n.globl resume\n.type resume,@function\n"
	"resume: mov %rdi,%rsp\n mov $15,%eax\n syscall\n ud2\n .size resume,.-resume\n");

static void on_timer(int sig, siginfo_t *info, void *context)
{
	mcontext_t *m = &((ucontext_t *)context)->uc_mcontext;
	struct thread *next = stop ? 0 : take(), *before = running;
	greg_t segments = m->gregs[REG_CSGSFS];
	(void)sig, (void)info;
	if (!next)
		return;
	if (before) {
		memcpy(before->registers, m->gregs, sizeof m->gregs);
		before->fp = *m->fpregs;
	}
	running = next;
	if (by_hand) {
		next->frame = *(ucontext_t *)context;
		memcpy(next->frame.uc_mcontext.gregs, next->registers, sizeof m->gregs);
		next->frame.uc_mcontext.gregs[REG_CSGSFS] = segments;
		next->frame.uc_mcontext.fpregs = 0; /* as at the start: nobody uses them */
		m->gregs[REG_RIP] = (greg_t)resume;
		m->gregs[REG_RSP] = (greg_t)(next->spare + sizeof next->spare - 8);
		m->gregs[REG_RDI] = (greg_t)&next->frame;
		sigaddset(&((ucontext_t *)context)->uc_sigmask, sig);
	} else {
		memcpy(m->gregs, next->registers, sizeof m->gregs);
		m->gregs[REG_CSGSFS] = segments;
		if (next->fp.mxcsr)
			memcpy(m->fpregs, &next->fp, 512 - 48); /* what follows tells of the rest of the frame */
	}
	if (before)
		put(before);
	__atomic_add_fetch(&switches, 1, __ATOMIC_RELAXED);
}

static void *schedule(void *arg)
{
	stack_t stack = {.ss_sp = malloc(STACK), .ss_size = STACK};
	struct sigevent event;
	struct itimerspec every = {{0, 50000}, {0, 50000}};
	timer_t timer;
	(void)arg;
	sigaltstack(&stack, 0);
	memset(&event, 0, sizeof event);
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = SIGUSR1;
	event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &every, 0);
	for (;;)
		__asm__ volatile("pause"); /* nobody comes back here */
	return 0;
}

int main(int argc, char **argv)
{
	int kernel = atoi(argv[1]);
	limit = argc > 2 ? atol(argv[2]) : 1;
	by_hand = argc > 3;
	for (int i = 0; i < THREADS; i++) {
		greg_t *g = all[i].registers;
		g[REG_RIP] = (greg_t)work;
		g[REG_RDI] = (greg_t)&all[i];
		g[REG_RSP] = (greg_t)(all[i].stack + STACK - 72);
		g[REG_EFL] = 0x202;
		put(&all[i]);
	}
#ifdef FRONTS
	const char *armed[] = {"leaf", "inner", "carries", "turns"};
	for (int i = 0; i < 4; i++) /* from now on the fronts run */
		dynprof_rearm(dynprof_find(0, armed[i]), 1000000000);
#endif
	struct sigaction a = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	sigaction(SIGUSR1, &a, 0);
	for (int i = 0; i < kernel; i++) {
		pthread_t t;
		pthread_create(&t, 0, schedule, 0);
	}
	sigset_t timer;
	sigemptyset(&timer);
	sigaddset(&timer, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &timer, 0);
	while (done < THREADS)
		usleep(1000);
	stop = 1;
	for (int i = 0; i < THREADS; i++)
		expect("rounds", all[i].rounds, limit);
	puts(wrong ? "wrong" : "ok");
	return wrong;
}
