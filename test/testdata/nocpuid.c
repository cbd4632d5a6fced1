/* A program that has its CPUID instructions refused, and emulates them: nocpuid LIBRARY. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int asked;

static void fault(int sig, siginfo_t *info, void *context)
{
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	(void)sig, (void)info;
	asked++;
	r[REG_RIP] += 2;
	r[REG_RAX] = 77;
}

int main(int argc, char **argv)
{
	(void)argc;
	struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
	sigaction(SIGSEGV, &action, NULL);
	if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0)) {
		puts("cannot be refused");
		return 3;
	}
	unsigned a = 0, b, c = 0, d;
	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	long sum = 0;
	void *l = dlopen(argv[1], RTLD_NOW);
	long (*key)(long) = (long (*)(long))dlsym(l, "late_key");
	for (int i = 0; i < 2000; i++)
		sum += key(i);
	printf("%u %ld, asked %d\n", a, sum, asked);
	return 3;
}
