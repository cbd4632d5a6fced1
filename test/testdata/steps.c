/* Steps through calls that lead into the kernel, and asks at each instruction for a
 * backtrace: it has to come from main, or from where a thread begins. The argument is
 * a library that is opened on the way. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define HOME __attribute__((noinline, section("home")))
#define STEPS_ON() __asm__ volatile("pushf\norl $0x100,(%%rsp)\npopf\n" ::: "memory", "cc")
#define STEPS_OFF() __asm__ volatile("pushf\nandl $~0x100,(%%rsp)\npopf\n" ::: "memory", "cc")
extern const char __start_home[], __stop_home[];

static volatile int lost, steps;
static void *where;

static void on_step(int sig, siginfo_t *info, void *context)
{
	void *frames[64];
	int n = backtrace(frames, 64), home = 0;
	(void)sig, (void)info;
	for (int i = 0; i < n; i++)
		home |= (const char *)frames[i] >= __start_home && (const char *)frames[i] < __stop_home;
	steps++;
	if (!home && !lost++)
		where = (void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}

static void *page;
static struct timespec moment = {0, 1000};
static struct sigaction action;
static sigset_t set;

static void by_number_sleep(void) { syscall(SYS_nanosleep, &moment, 0); }
static void by_number_mmap(void) { syscall(SYS_mmap, 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L); }
static void by_number_fixed(void) { syscall(SYS_mmap, page, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0L); }
static void by_number_mprotect(void) { syscall(SYS_mprotect, page, 4096L, PROT_READ | PROT_WRITE); }
static void by_number_writable(void) { syscall(SYS_mprotect, page, 4096L, PROT_READ | PROT_WRITE | PROT_EXEC); }
static void by_number_madvise(void) { syscall(SYS_madvise, page, 4096L, MADV_DONTNEED); }
static void by_number_mremap(void) { syscall(SYS_mremap, page, 4096L, 4096L, 0); }
static void by_number_munmap(void) { syscall(SYS_munmap, page, 4096L); }
static void by_number_action(void) { syscall(SYS_rt_sigaction, SIGUSR1, &action, 0L, 8L); }
static void by_number_mask(void) { syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, 0L, 8L); }
static void by_number_gs(void) { unsigned long gs; syscall(SYS_arch_prctl, 0x1004, &gs); }
static void by_number_prctl(void) { syscall(SYS_prctl, PR_GET_NAME, page); }
static void by_number_unshare(void) { syscall(SYS_unshare, 0); }
static void by_number_none(void) { syscall(5000); }
static void by_number_fork(void)
{
	int pid = syscall(SYS_fork);
	if (pid == 0)
		syscall(SYS_exit_group, 0);
	waitpid(pid, 0, 0);
}
static void libc_fork(void)
{
	if (fork() == 0)
		_exit(0);
	wait(0);
}
static void libc_vfork(void)
{
	if (vfork() == 0)
		_exit(0);
	wait(0);
}
static const char *library;
static void libc_dlopen(void) { dlclose(dlopen(library, RTLD_NOW)); }
/* Steps to its end: libc's clone itself has no call frame information. */
HOME static int thread(void *unused)
{
	(void)unused;
	STEPS_ON();
	syscall(SYS_exit, 0);
	return 0;
}
HOME static void thread_exit(void)
{
	static char stack[64 << 10] __attribute__((aligned(16)));
	static volatile int alive;
	alive = 1;
	STEPS_OFF();
	clone(thread, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID, 0, 0, 0, &alive);
	while (alive)
		usleep(100);
}
static void libc_mmap(void) { page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static void libc_mprotect(void) { mprotect(page, 4096, PROT_READ | PROT_WRITE); }
static void libc_madvise(void) { madvise(page, 4096, MADV_DONTNEED); }
static void libc_mremap(void) { page = mremap(page, 4096, 8192, MREMAP_MAYMOVE); }
static void libc_munmap(void) { munmap(page, 8192); }
static void libc_prctl(void) { prctl(PR_SET_NAME, "steps"); }
static void libc_action(void) { sigaction(SIGUSR1, &action, 0); }
static void libc_query(void) { struct sigaction a; sigaction(SIGTRAP, 0, &a); }
static void libc_mask(void) { sigprocmask(SIG_UNBLOCK, &set, 0); }
static void libc_raise(void) { kill(getpid(), SIGUSR1); }
static void libc_sleep(void) { nanosleep(&moment, 0); }
static void libc_wait(void) { sigtimedwait(&set, 0, &moment); }
static void libc_stack(void) { stack_t s; sigaltstack(0, &s); }
static void on_signal(int sig) { (void)sig; }

#define STEP(name) {#name, name}
static const struct {
	const char *name;
	void (*call)(void);
} calls[] = {
	STEP(by_number_sleep), STEP(libc_mmap), STEP(by_number_mmap), STEP(by_number_fixed), STEP(by_number_mprotect),
	STEP(by_number_writable), STEP(by_number_madvise), STEP(by_number_mremap), STEP(by_number_munmap),
	STEP(by_number_action), STEP(by_number_mask), STEP(by_number_gs), STEP(by_number_unshare), STEP(by_number_none),
	STEP(by_number_fork), STEP(libc_mmap), STEP(by_number_prctl), STEP(libc_mprotect), STEP(libc_madvise),
	STEP(libc_mremap), STEP(libc_munmap), STEP(libc_prctl), STEP(libc_action), STEP(libc_query), STEP(libc_mask),
	STEP(libc_raise), STEP(libc_fork), STEP(libc_sleep), STEP(libc_wait), STEP(libc_stack),
	STEP(libc_vfork), STEP(libc_dlopen), STEP(thread_exit),
};

HOME int main(int argc, char **argv)
{
	void *warm[4];
	Dl_info d;
	struct sigaction a = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};

	library = argv[argc - 1];
	backtrace(warm, 4);
	action.sa_handler = on_signal;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGTRAP, &a, 0);
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
			lost = steps = 0;
			STEPS_ON();
			calls[i].call();
			STEPS_OFF();
			printf("%s: %s, lost %d\n", calls[i].name, steps > 5 ? "stepped" : "not stepped", lost);
			if (lost && dladdr(where, &d) && getenv("STEPS"))
				fprintf(stderr, "%p: %s %s+%ld\n", where, d.dli_fname, d.dli_sname, d.dli_saddr ? (char *)where - (char *)d.dli_saddr : 0L);
			fflush(stdout);
		}
	return 0;
}
