// Programs that turn Syscall User Dispatch on (prctl 59): system calls outside a
// range of addresses raise SIGSYS. dispatch HOW [LIBRARY]; step is called 1,000 times
// before it is on, and 1,000 times after.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { DISPATCH = 59, OFF = 0, ON, INCLUSIVE };
static volatile char blocks;
static volatile long sum;
extern char **environ;
static const char *library;
static struct { long nr; const char *object; } made[4096]; /* system calls that were dispatched */
static int made_count, leaves_off;

__attribute__((noipa)) void step(void) { sum++; }

static void steps(void)
{
	for (int i = 0; i < 1000; i++)
		step();
}

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

/* The executable segment of the object whose path has name in it. */
static struct { const char *name; unsigned long at, size; } text;

static int find(struct dl_phdr_info *i, size_t z, void *d)
{
	(void)z, (void)d;
	for (int k = 0; strstr(i->dlpi_name, text.name) && k < i->dlpi_phnum && !text.at; k++)
		if (i->dlpi_phdr[k].p_type == PT_LOAD && i->dlpi_phdr[k].p_flags & PF_X)
			text.at = i->dlpi_addr + i->dlpi_phdr[k].p_vaddr, text.size = i->dlpi_phdr[k].p_memsz;
	return 0;
}

static void find_libc(void)
{
	text.name = "libc.so";
	dl_iterate_phdr(find, 0);
}

static void *thread(void *arg) { return steps(), arg; }

static void handler(int sig) { sum += sig; }

static long ends(long pid)
{
	int status = 0;
	must(pid > 0 && waitpid((pid_t)pid, &status, 0) == pid, "wait");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Everything that has kernel sites in libc. */
static void all_of_libc(void)
{
	char *args[] = {"true", 0};
	pthread_t t;
	pid_t child;
	void *got = 0;
	struct sigaction old, use = {.sa_handler = handler};
	int pid = fork();
	if (!pid)
		steps(), _exit(12);
	printf("fork: %ld\n", ends(pid));
	if (!(pid = vfork()))
		_exit(13);
	printf("vfork: %ld\n", ends(pid));
	must(posix_spawn(&child, "/bin/true", 0, 0, args, environ) == 0, "posix_spawn");
	printf("spawn: %ld\n", ends(child));
	must(pthread_create(&t, 0, thread, made) == 0 && pthread_join(t, &got) == 0, "pthread_create");
	printf("thread: %d\n", got == made);
	must(sigaction(SIGUSR1, &use, &old) == 0, "sigaction");
	printf("handler from before: %d\n", old.sa_handler == handler);
	raise(SIGUSR1), raise(SIGUSR2);
	must(sigaction(SIGUSR2, &use, &old) == 0, "sigaction");
	printf("another: %d\n", old.sa_handler == handler);
	void *page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(page != MAP_FAILED && mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0, "mprotect");
	printf("syscall: %d\n", syscall(SYS_getpid) == getpid());
	printf("munlockall: %d\n", munlockall());
	printf("prctl: %d\n", prctl(PR_GET_DUMPABLE));
	unsigned long base = 1;
	printf("arch_prctl: %ld\n", syscall(SYS_arch_prctl, 0x1003 /* ARCH_GET_FS */, &base));
}

/* libc's system calls may be made, no others. */
static void libc(void)
{
	find_libc();
	signal(SIGUSR1, handler), signal(SIGUSR2, handler);
	steps();
	must(prctl(DISPATCH, ON, text.at, text.size, &blocks) == 0, "prctl");
	blocks = 1;
	all_of_libc();
	steps();
}

/* As that, where no pages become executable. */
static void mdwe(void)
{
	printf("PR_SET_MDWE: %d\n", prctl(65, 1, 0, 0, 0));
	libc();
}

/* As the first, but behind a filter that lets nobody map memory or open files. */
static void filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 2, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {sizeof code / sizeof *code, code};
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "filter");
	find_libc();
	must(prctl(DISPATCH, ON, text.at, text.size, &blocks) == 0, "prctl");
	blocks = 1;
	int pid = fork();
	if (!pid)
		_exit(12);
	printf("fork: %ld\n", ends(pid));
	pthread_t t;
	must(pthread_create(&t, 0, thread, made) == 0 && pthread_join(t, 0) == 0, "pthread_create");
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	printf("%d\n", syscall(SYS_getppid) == getppid());
}

/* Adds to a filter: what is called from the executable segment of an object may be
 * made. Its halves are compared with those of the address, up to four GB at a time. */
static struct sock_filter code[64];
static unsigned code_size;

static void allow(const char *name)
{
	const unsigned low_half = offsetof(struct seccomp_data, instruction_pointer);
	text.name = name, text.at = text.size = 0;
	dl_iterate_phdr(find, 0);
	for (unsigned long at = text.at, end = at + text.size, to; at < end; at = to) {
		to = (at | 0xffffffff) + 1 < end ? (at | 0xffffffff) + 1 : end;
		struct sock_filter one[] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_half + 4), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(at >> 32), 0, 4),
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_half), BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (unsigned)at, 0, 2),
			BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (unsigned)(to - 1), 1, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		};
		must(code_size + 6 < sizeof code / sizeof *code, "room");
		memcpy(code + code_size, one, sizeof one);
		code_size += 6;
	}
}

/* A filter that kills whoever makes a system call elsewhere. */
static void addresses(void)
{
	signal(SIGUSR1, handler), signal(SIGUSR2, handler);
	steps();
	allow("libc.so"), allow("ld-linux"), allow("vdso");
	code[code_size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	struct sock_fprog program = {(unsigned short)code_size, code};
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "filter");
	all_of_libc();
	void *handle = dlopen(library, RTLD_NOW);
	must(handle != 0 && dlclose(handle) == 0, library);
	steps();
}

/* The only system calls that reach the kernel are those of the gate; the others
 * are noted and made there, by the handler, as wine does. */
extern char gate_begin[], gate_end[];
long gate(long nr, long a, long b, long c, long d, long e, long f);
void gate_return(void);
__asm__(".text\ngate_begin:\n"
	"gate: mov %rdi,%rax; mov %rsi,%rdi; mov %rdx,%rsi; mov %rcx,%rdx; mov %r8,%r10; mov %r9,%r8; mov 8(%rsp),%r9; syscall; ret\n"
	"gate_return: mov $15,%eax; syscall; nop\n"
	"gate_end:\n");

static void on_sys(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	greg_t *g = u->uc_mcontext.gregs;
	char before = blocks;
	(void)sig;
	blocks = 0;
	if (made_count < 4096)
		made[made_count].nr = info->si_syscall, made[made_count++].object = info->si_call_addr;
	g[REG_RAX] = gate(info->si_syscall, g[REG_RDI], g[REG_RSI], g[REG_RDX], g[REG_R10], g[REG_R8], g[REG_R9]);
	blocks = before && !leaves_off;
}

/* What is not libc's heap: where that is in the arena of other threads differs. */
static void tell(void)
{
	Dl_info info;
	for (int i = 0; i < made_count; i++) {
		const char *name = dladdr(made[i].object, &info) ? strrchr(info.dli_fname, '/') : 0;
		if (made[i].nr != SYS_brk)
			printf("%ld by %s\n", made[i].nr, name ? name + 1 : "?");
	}
}

static void gated(void)
{
	struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } act = {on_sys, 0x44000004 /* RESTORER, NODEFER, SIGINFO */, gate_return, 0};
	must(syscall(SYS_rt_sigaction, SIGSYS, &act, 0, 8) == 0, "sigaction");
	steps();
	must(prctl(DISPATCH, ON, gate_begin, gate_end - gate_begin, &blocks) == 0, "prctl");
	blocks = 1;
	struct sigaction old, use = {.sa_handler = SIG_IGN};
	sigaction(SIGUSR1, &use, &old);
	void *handle = dlopen(library, RTLD_NOW);
	must(handle != 0, library);
	void *page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
	syscall(SYS_getpid), munlockall(), prctl(PR_GET_DUMPABLE);
	dlclose(handle);
	blocks = 0;
	must(prctl(DISPATCH, OFF, 0, 0, 0) == 0, "prctl");
	tell();
	steps();
}

/* The call is not let through: nothing changes. A child turns it on: only it is
 * not counted any more, and it has called step 1,000 times by then. */
static void others(void)
{
	printf("%d", prctl(DISPATCH, ON, ~0UL, 1UL, &blocks));
	printf(" %d", prctl(DISPATCH, 77, 0, 0, 0));
	printf(" %d\n", prctl(DISPATCH, OFF, 0, 0, 0));
	fflush(stdout);
	int pid = fork();
	if (!pid)
		libc(), fflush(stdout), _exit(3);
	steps();
	printf("child: %ld\n", ends(pid));
	steps();
}

/* System calls of its own, whose numbers are loaded well in front: they are
 * kernel sites that are overwritten. */
static long own_fork(void)
{
	long ret;
	__asm__ volatile("mov $57,%%eax\n mov %%rsp,%%rdi\n syscall" : "=a"(ret) : : "rdi", "rcx", "r11", "memory");
	return ret;
}

static void own(void)
{
	extern char __executable_start[], etext[];
	steps();
	must(prctl(DISPATCH, ON, __executable_start, etext - __executable_start, &blocks) == 0, "prctl");
	blocks = 1;
	long pid = own_fork(), child = pid == 0;
	blocks = 0;
	if (child)
		_exit(14);
	printf("child: %ld\n", ends(pid));
	steps();
}

/* The other way round: only those of libc are dispatched, so that none may be made
 * for it elsewhere. */
static void inclusive(void)
{
	struct sigaction use = {.sa_sigaction = on_sys, .sa_flags = SA_SIGINFO};
	leaves_off = 1; /* the handler returns by libc's call */
	must(sigaction(SIGSYS, &use, 0) == 0, "sigaction");
	find_libc();
	steps();
	if (prctl(DISPATCH, INCLUSIVE, text.at, text.size, &blocks) != 0) {
		printf("not known\n");
		return;
	}
	blocks = 1;
	signal(SIGUSR1, SIG_IGN);
	prctl(PR_GET_DUMPABLE);
	blocks = 0;
	prctl(DISPATCH, OFF, 0, 0, 0);
	tell();
	steps();
}

/* Threads that call step while another turns it on. */
static void *spins(void *arg)
{
	volatile int *stop = arg;
	while (!*stop)
		step();
	return 0;
}

static void threads(void)
{
	enum { THREADS = 4 };
	pthread_t t[THREADS];
	volatile int stop = 0;
	find_libc();
	for (int i = 0; i < THREADS; i++)
		must(pthread_create(&t[i], 0, spins, (void *)&stop) == 0, "pthread_create");
	usleep(2000);
	must(prctl(DISPATCH, ON, text.at, text.size, &blocks) == 0, "prctl");
	blocks = 1;
	usleep(2000);
	int pid = fork();
	if (!pid)
		_exit(12);
	printf("fork: %ld\n", ends(pid));
	stop = 1;
	for (int i = 0; i < THREADS; i++)
		must(pthread_join(t[i], 0) == 0, "pthread_join");
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*run)(void); } all[] = {
		{"libc", libc}, {"mdwe", mdwe}, {"filter", filter}, {"gated", gated}, {"addresses", addresses}, {"others", others}, {"own", own}, {"inclusive", inclusive}, {"threads", threads},
	};
	setvbuf(stdout, 0, _IOFBF, 1 << 16); /* children end by _exit, and say nothing */
	library = argc > 2 ? argv[2] : "";
	for (unsigned i = 0; argc > 1 && i < sizeof all / sizeof *all; i++)
		if (!strcmp(all[i].name, argv[1])) {
			all[i].run();
			fflush(stdout);
			return 3;
		}
	return 2;
}
