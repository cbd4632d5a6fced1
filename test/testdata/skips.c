/* Handlers that have a thread go on some instructions behind the one that they interrupt: a system
 * call, and a call that faults. With blocks these two stay where they were, and what is behind them
 * runs as a copy. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int skip; /* bytes */

static void handler(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += skip;
}

__attribute__((noipa)) static void other(void) {}

/* Lets a signal come; the handler leaves out the first instructions behind that, of 4 bytes each. */
__attribute__((noipa)) static long waits(const sigset_t *mask, long x)
{
	long ret = SYS_rt_sigsuspend;
	__asm__ volatile("syscall\n"
			 "add $1, %1\n"
			 "add $2, %1\n"
			 "add $4, %1\n"
			 "add $8, %1\n"
			 : "+a"(ret), "+r"(x) : "D"(mask), "S"(8L) : "rcx", "r11", "memory", "cc");
	other();
	return x;
}

/* A call of 2 bytes by a bad pointer. */
__attribute__((noipa)) static long calls(void (**f)(void), long x)
{
	__asm__ volatile("call *(%1)\n"
			 "add $1, %0\n"
			 "add $2, %0\n"
			 "add $4, %0\n"
			 "add $8, %0\n"
			 : "+r"(x) : "b"(f) : "memory", "cc");
	other();
	return x;
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	sigset_t none, usr1;
	sigemptyset(&none);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, 0);
	sigaction(SIGUSR1, &action, 0);
	sigaction(SIGSEGV, &action, 0);
	for (int n = 0; n <= 4; n++) {
		skip = 4 * n;
		raise(SIGUSR1);
		printf("%ld ", waits(&none, 0));
		skip = 2 + 4 * n;
		printf("%ld\n", calls(0, 0));
	}
	return 0;
}
