#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
static volatile int lost, steps;
static void *where[10000]; static int nl; 
static void on_step(int sig, siginfo_t *i, void *c)
{
	void *frames[64];
	int n = backtrace(frames, 64), home = 0;
	for (int k = 0; k < n; k++) {
		Dl_info d = {0};
		if (dladdr(frames[k], &d) && d.dli_sname && strcmp(d.dli_sname, "main") == 0)
			home = 1;
	}
	steps++;
	if (!home && nl < 10000) { where[nl++] = (void *)((ucontext_t *)c)->uc_mcontext.gregs[REG_RIP]; lost++; }
}
int main(int argc, char **argv)
{
	void *warm[4]; backtrace(warm, 4);
	Dl_info d; dladdr(main, &d);
	struct sigaction a = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	sigaction(SIGTRAP, &a, 0);
	struct timespec t = {0, 1000};
	for (int i = 0; i < 12; i++) {
		int s0 = steps, l0 = lost;
		__asm__ volatile("pushf\norl $0x100,(%%rsp)\npopf\n" ::: "memory", "cc");
		syscall(SYS_nanosleep, &t, 0);
		__asm__ volatile("pushf\nandl $~0x100,(%%rsp)\npopf\n" ::: "memory", "cc");
		printf("%d: steps %d lost %d\n", i, steps - s0, lost - l0);
	}
	for (int k = 0; k < nl && k < 400; k++) { Dl_info d = {0}; dladdr(where[k], &d); if (k < 60) fprintf(stderr, "%p %s %s\n", where[k], d.dli_fname, d.dli_sname); }
	if (argc > 1) { char cmd[100]; sprintf(cmd, "cat /proc/%d/maps", getpid()); FILE *f = fopen("/proc/self/maps", "r"); int ch; while ((ch = getc(f)) != EOF) putc(ch, stderr); }
	return 0;
}
