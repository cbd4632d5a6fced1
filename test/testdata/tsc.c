/* A program that forbids itself to read the time-stamp counter: tsc LIBRARY. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline, noipa)) long step(long x) { return x * 3 + 1; }
__attribute__((noinline, noipa)) long strict(long x) { return x * 5 + 1; }

static volatile int faults;

static void fault(int sig)
{
	(void)sig;
	faults++;
	prctl(PR_SET_TSC, PR_TSC_ENABLE);
}

int main(int argc, char **argv)
{
	(void)argc;
	long sum = 0;
	int status;
	if (fork() == 0) {
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
		for (int i = 0; i < 2000; i++)
			sum += strict(i);
		syscall(SYS_exit, sum == 9997000 ? 4 : 5);
	}
	wait(&status);
	printf("strict: %x\n", status);

	signal(SIGSEGV, fault);
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	for (int i = 0; i < 2000; i++)
		sum += step(i);
	void *l = dlopen(argv[1], RTLD_NOW);
	long (*key)(long) = (long (*)(long))dlsym(l, "late_key");
	for (int i = 0; i < 2000; i++)
		sum += key(i);
	printf("%ld, %d faults\n", sum, faults);
	return 3;
}
