/* A storm of signals: handlers that call what they interrupt, on stacks of their
 * own and not, by timers and from other threads, while some threads block them,
 * fork, and make threads. The argument is how many signals are sent. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pin.h"
#include "tally.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { WORKERS = 4, SIGQUEUED = 40, SIGTIMED = 41 };

static __thread int guarded;  /* this thread blocks all signals */
static __thread int blocking; /* and this one SIGUSR1 now */
static long foreign, through, queued, sent, masks;
static int stop;

#define ADD(n) __atomic_fetch_add(&(n), 1, __ATOMIC_RELAXED)
#define SEE(n) __atomic_load_n(&(n), __ATOMIC_RELAXED)

OWN static int struck(int x)
{
	ENTER;
	return x * 3 + 1;
}

/* Larger, with a stub that jumps back. */
OWN static int struck_too(int x)
{
	ENTER;
	for (int i = 0; i < 3; i++)
		x = struck(x) ^ i;
	return x > 0 ? struck(x) : x;
}

OWN static void on_plain(int sig)
{
	ENTER;
	if (guarded)
		ADD(foreign);
	if (blocking && sig == SIGUSR1)
		ADD(through);
	struck_too(sig);
}

OWN static void on_info(int sig, siginfo_t *info, void *context)
{
	ENTER;
	(void)context;
	if (guarded)
		ADD(foreign);
	if (sig == SIGQUEUED && info->si_code == SI_QUEUE)
		ADD(queued);
	struck_too(sig);
}

OWN static void handle(int sig, int flags)
{
	ENTER;
	struct sigaction a;
	memset(&a, 0, sizeof a);
	a.sa_flags = flags | SA_RESTART;
	if (flags & SA_SIGINFO)
		a.sa_sigaction = on_info;
	else
		a.sa_handler = on_plain;
	sigaction(sig, &a, 0);
}

OWN static void timed(timer_t *timer)
{
	ENTER;
	struct sigevent event;
	struct itimerspec every = {{0, 700000}, {0, 700000}};
	memset(&event, 0, sizeof event);
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = SIGTIMED;
	event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	timer_create(CLOCK_MONOTONIC, &event, timer);
	timer_settime(*timer, 0, &every, 0);
}

OWN static void *run_worker(void *arg)
{
	ENTER;
	stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16}, none = {.ss_flags = SS_DISABLE};
	sigset_t one;
	timer_t timer;
	int x = 0;
	pin((int)(long)arg);
	sigaltstack(&stack, 0);
	timed(&timer);
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	while (!SEE(stop) || SEE(queued) < SEE(sent)) {
		for (int i = 0; i < 300; i++)
			x = struck_too(x);
		pthread_sigmask(SIG_BLOCK, &one, 0);
		blocking = 1;
		for (int i = 0; i < 100; i++)
			x = struck(x);
		blocking = 0;
		pthread_sigmask(SIG_UNBLOCK, &one, 0);
	}
	timer_delete(timer);
	sigaltstack(&none, 0);
	free(stack.ss_sp);
	return (void *)(long)x;
}

OWN static int same_mask(const sigset_t *want)
{
	ENTER;
	sigset_t now;
	pthread_sigmask(SIG_SETMASK, 0, &now);
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(want, sig) != sigismember(&now, sig))
			return 0;
	return 1;
}

OWN static void *run_brief(void *arg)
{
	ENTER;
	guarded = arg != 0;
	return (void *)(long)struck(1);
}

/* Forks and makes threads; its children have its mask. */
OWN static void *run_maker(void *arg)
{
	ENTER;
	sigset_t mask;
	guarded = arg != 0;
	if (guarded) {
		sigfillset(&mask);
		pthread_sigmask(SIG_SETMASK, &mask, 0);
	}
	pthread_sigmask(SIG_SETMASK, 0, &mask);
	while (!SEE(stop)) {
		pid_t pid = fork();
		if (pid == 0) {
			struck_too(1);
			_exit(same_mask(&mask) ? 0 : 1);
		}
		if (!same_mask(&mask))
			ADD(masks);
		int status = -1;
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (status != 0)
			ADD(masks);
		pthread_t t;
		if (pthread_create(&t, 0, run_brief, arg) == 0)
			pthread_join(t, 0);
	}
	return 0;
}

int main(int argc, char **argv)
{
	long amount = argc > 1 ? atol(argv[1]) : 0;
	pthread_t workers[WORKERS], makers[2];
	struct itimerval often = {{0, 900}, {0, 900}}, never = {{0, 0}, {0, 0}};
	sigset_t all;
	sigfillset(&all);
	handle(SIGUSR1, 0);
	handle(SIGUSR2, SA_ONSTACK);
	handle(SIGPROF, SA_ONSTACK | SA_SIGINFO);
	handle(SIGALRM, 0);
	handle(SIGQUEUED, SA_SIGINFO);
	handle(SIGTIMED, SA_ONSTACK | SA_SIGINFO);
	for (long i = 0; i < WORKERS; i++)
		pthread_create(&workers[i], 0, run_worker, (void *)i);
	for (long i = 0; i < 2; i++)
		pthread_create(&makers[i], 0, run_maker, (void *)i);
	guarded = 1;
	pthread_sigmask(SIG_SETMASK, &all, 0);
	setitimer(ITIMER_REAL, &often, 0);
	setitimer(ITIMER_PROF, &often, 0);
	for (long i = 0; i < amount; i++) {
		union sigval value = {.sival_int = (int)i};
		pthread_t to = workers[i % WORKERS];
		switch (i % 3) {
		case 0:
			pthread_kill(to, SIGUSR1);
			break;
		case 1:
			pthread_kill(to, SIGUSR2);
			break;
		case 2:
			if (pthread_sigqueue(to, SIGQUEUED, value) == 0)
				ADD(sent);
		}
		struck((int)i);
		if (i % 64 == 0)
			usleep(200);
	}
	setitimer(ITIMER_REAL, &never, 0);
	setitimer(ITIMER_PROF, &never, 0);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], 0);
	for (int i = 0; i < 2; i++)
		pthread_join(makers[i], 0);
	printf("to threads that block all: %ld\nwhile blocked: %ld\nqueued and lost: %ld\nmasks changed: %ld\n",
	       foreign, through, sent - queued, masks);
	return 0;
}
