// System calls that a seccomp filter lets the program answer itself (SECCOMP_RET_TRAP):
// the handler of SIGSYS is told where each was made, and the address is libc's, but for
// those that make processes (docs/architecture.md).
// trapped; step is called 1,000 times before, 1,000 after, and once by each handler.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static volatile long sum;
static volatile int told, elsewhere, astray;

__attribute__((noipa)) void step(void) { sum++; }

static void steps(void)
{
	for (int i = 0; i < 1000; i++)
		step();
}

static void on_sys(int sig, siginfo_t *info, void *context)
{
	greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	Dl_info at = {0};
	(void)sig;
	told++;
	elsewhere += (greg_t)info->si_call_addr != g[REG_RIP];
	astray += info->si_syscall != SYS_clone && (!dladdr(info->si_call_addr, &at) || !strstr(at.dli_fname, "libc.so"));
	step();
	g[REG_RAX] = -(info->si_syscall % 100 + 1);
}

static void install(void)
{
	static const unsigned calls[] = {SYS_mprotect, SYS_clone, SYS_clone3, SYS_madvise, SYS_mlockall, SYS_munmap, SYS_prctl, SYS_getpriority};
	enum { CALLS = sizeof calls / sizeof *calls };
	struct sock_filter code[CALLS + 3] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	for (int i = 0; i < CALLS; i++)
		code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], (unsigned char)(CALLS - i), 0);
	code[CALLS + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[CALLS + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
	struct sock_fprog program = {CALLS + 3, code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		perror("filter");
}

static void tell(const char *what, long got)
{
	int error = errno;
	printf("%s: %ld, %d\n", what, got, error);
}

int main(void)
{
	struct sigaction use = {.sa_sigaction = on_sys, .sa_flags = SA_SIGINFO};
	void *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigset_t mask;
	sigaction(SIGSYS, &use, 0);
	install();
	steps();
	tell("mprotect", mprotect(page, 4096, PROT_READ));
	tell("madvise", madvise(page, 4096, MADV_DONTNEED));
	tell("mlockall", mlockall(MCL_CURRENT));
	tell("fork", fork());
	tell("prctl", prctl(PR_GET_DUMPABLE));
	tell("getpriority", getpriority(PRIO_PROCESS, 0));
	tell("munmap", munmap(page, 4096));
	tell("fork", fork());
	sigprocmask(SIG_SETMASK, 0, &mask);
	printf("blocked: %d %d\n", sigismember(&mask, SIGUSR1), sigismember(&mask, SIGSYS));
	steps();
	printf("told %d times, %d of another address, %d not of libc's\n", told, elsewhere, astray);
	return 3;
}
