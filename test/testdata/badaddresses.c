/* System calls whose arguments lie at addresses that cannot be read or written: the
 * kernel answers EFAULT, or does what it does before it looks there. With traps.S (trap:
 * a function that only a trap serves) its signal sites are ours as well. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef TRAPS
void trap_ret(void), leaf(void);
void (*leaf_pointer)(void) = leaf;
#endif

enum { PAGE = 4096 };

/* By a system call of our own: libc's wrappers read some of these before the kernel does. */
#define CALL(nr, a, b, c, d, e, f) ({ \
	register long r10 __asm__("r10") = (long)(d), r8 __asm__("r8") = (long)(e), r9 __asm__("r9") = (long)(f); \
	long ret; \
	__asm__ volatile("mov %1, %%eax\n\tsyscall" \
		: "=&a"(ret) : "i"(nr), "D"((long)(a)), "S"((long)(b)), "d"((long)(c)), "r"(r10), "r"(r8), "r"(r9) \
		: "rcx", "r11", "memory"); \
	if (ret < 0) { errno = (int)-ret; ret = -1; } \
	ret; })

static void ask(const char *what, const char *where, long ret)
{
	int err = errno;
	printf("%s, %s: %s\n", what, where, ret == -1 ? strerror(err) : "done");
	fflush(stdout);
}

struct clone_args64 {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

/* A child by clone3 with arguments that lie anywhere. */
static void forks(const char *where, struct clone_args64 *at)
{
	*at = (struct clone_args64){.exit_signal = SIGCHLD};
	long pid = syscall(SYS_clone3, at, sizeof *at);
	if (pid == 0)
		_exit(7);
	int status = 0;
	if (pid > 0)
		waitpid((pid_t)pid, &status, 0);
	printf("clone3, %s: %s, status %d\n", where, pid > 0 ? "made" : strerror(errno), WEXITSTATUS(status));
	fflush(stdout);
}

static void all(const char *where, void *at)
{
	struct timespec none = {0, 0};
	struct pollfd no = {-1, 0, 0};
	uint64_t six[2] = {(uint64_t)at, 8}, full = ~0ull;
	ask("clone3", where, syscall(SYS_clone3, at, sizeof(struct clone_args64)));
	ask("clone3 of version 0", where, syscall(SYS_clone3, at, 64));
	ask("clone3, too short", where, syscall(SYS_clone3, at, 63));
	for (int sig = SIGTRAP; sig <= SIGUSR1; sig += SIGUSR1 - SIGTRAP) {
		ask("sigaction", where, CALL(SYS_rt_sigaction, sig, at, 0, 8, 0, 0));
		ask("sigaction, old", where, CALL(SYS_rt_sigaction, sig, 0, at, 8, 0, 0));
		ask("sigaction by libc", where, syscall(SYS_rt_sigaction, sig, at, 0, 8));
	}
	ask("sigprocmask", where, CALL(SYS_rt_sigprocmask, SIG_BLOCK, at, 0, 8, 0, 0));
	ask("sigprocmask, old", where, CALL(SYS_rt_sigprocmask, SIG_BLOCK, 0, at, 8, 0, 0));
	ask("sigprocmask, both", where, CALL(SYS_rt_sigprocmask, SIG_UNBLOCK, &full, at, 8, 0, 0));
	ask("sigsuspend", where, CALL(SYS_rt_sigsuspend, at, 8, 0, 0, 0, 0));
	ask("ppoll", where, CALL(SYS_ppoll, &no, 1, &none, at, 8, 0));
	ask("ppoll by libc", where, ppoll(&no, 1, &none, at));
	ask("pselect6", where, CALL(SYS_pselect6, 0, 0, 0, 0, &none, six));
	ask("pselect6, its sixth", where, CALL(SYS_pselect6, 0, 0, 0, 0, &none, at));
	ask("seccomp", where, syscall(SYS_seccomp, 1, 0, at));
	ask("arch_prctl", where, syscall(SYS_arch_prctl, 0x1004, at)); /* ARCH_GET_GS */
}

int main(void)
{
#ifdef TRAPS
	trap_ret();
#endif
	char *pages = mmap(0, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *shared = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	static struct clone_args64 kept;
	struct clone_args64 here;
	if (pages == MAP_FAILED || shared == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE) != 0)
		return 1;
	forks("on the stack", &here);
	forks("in data", &kept);
	forks("at the end of a page", (struct clone_args64 *)(pages + PAGE) - 1);
	forks("in shared memory", (struct clone_args64 *)shared);
	all("a closed page", pages + PAGE);
	all("half a closed page", pages + PAGE - 4);
	all("the first page", (void *)8);
	all("the kernel's", (void *)0xffff800000000000);
	all("no address", (void *)0x8000000000000000);
	all("the last", (void *)-1l);
	return 0;
}
