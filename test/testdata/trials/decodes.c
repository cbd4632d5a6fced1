/* A handler that reads the instruction that faulted, does its work, and goes on
 * behind it. It is the first of a function. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>

static int known, unknown;

__attribute__((naked, noinline)) int peek(int *p)
{
	(void)p;
	__asm__("mov (%rdi),%eax\n add $1,%eax\n ret\n nop\n nop\n nop");
}

static void fault(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info;
	greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	const unsigned char *rip = (const unsigned char *)g[REG_RIP];
	if (rip[0] == 0x8b && rip[1] == 0x07)
		known++;
	else
		unknown++;
	g[REG_RAX] = 41;
	g[REG_RIP] += 2;
}

int main(void)
{
	struct sigaction a = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
	sigaction(SIGSEGV, &a, 0);
	int sum = peek((int *)8);
	printf("%d: %d instructions known, %d unknown\n", sum, known, unknown);
	return 3;
}
