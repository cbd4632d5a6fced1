/* A program that writes a jump over an entry, or has a fault tell of a call of it:
 * overwrites HOW.
 *
 *	store	into text that is writable from the start
 *	pipe	into text that it makes writable, when a pipe has its file's name
 *	lock	into text that it has locked
 *	limit	into text that it makes writable, when it can map nothing more
 *	fault	text may be read, and not be executed
 *	filter	the same as limit, where a filter lets it open and move nothing
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define HOT __attribute__((noipa, section(".hot, \"awx\", @progbits#")))

HOT long hot(long x) { return x * 3 + 1; }
HOT long other(long x) { return x * 7 - 2; }
__attribute__((noipa, aligned(4096))) long cool(long x) { return x * 5 + 1; }
__attribute__((noipa, aligned(4096))) long another(long x) { return x * 9 - 2; }
__attribute__((noipa)) long calls_both(long x) { return hot(x) + cool(x + 1); }

static void write_jump(void *at, void *to)
{
	char jump[5] = {(char)0xe9};
	int distance = (int)((char *)to - ((char *)at + 5));
	memcpy(jump + 1, &distance, 4);
	memcpy(at, jump, 5);
}

static void run_all(void)
{
	long sum = 0;
	for (long i = 0; i < 100; i++)
		sum += calls_both(i);
	printf("%ld\n", sum);
	fflush(stdout);
}

/* The file is a copy that the test has made. */
static int become_pipe(const char *path)
{
	return unlink(path) == 0 && mkfifo(path, 0600) == 0;
}

static void called(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	intptr_t at = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	printf("%td %td\n", (char *)info->si_addr - (char *)cool, (char *)at - (char *)cool);
	mprotect((char *)cool, 4096, PROT_READ | PROT_EXEC);
}

static void have_told(void)
{
	struct sigaction action = {.sa_sigaction = called, .sa_flags = SA_SIGINFO};
	sigaction(SIGSEGV, &action, 0);
	mprotect((char *)cool, 4096, PROT_READ);
}

static long locked(void)
{
	char line[256];
	long kb = -1;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "VmLck: %ld", &kb);
	return kb;
}

static void limit(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	fscanf(f, "%ld", &pages);
	fclose(f);
	setrlimit(RLIMIT_AS, &(struct rlimit){(rlim_t)pages * 4096, (rlim_t)pages * 4096});
}

static void filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof code / sizeof *code, code};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		perror("seccomp");
}

static void overwrite(void)
{
	char *low = (char *)((uintptr_t)cool & -4096);
	mprotect(low, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
	for (int i = 0; i < 5; i++)
		printf("%02x", ((unsigned char *)cool)[i]);
	printf(" was there\n");
	write_jump(cool, another);
	mprotect(low, 8192, PROT_READ | PROT_EXEC);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "store";
	run_all();
	if (!strcmp(how, "pipe") && become_pipe(argv[0])) {
		overwrite();
		unlink(argv[0]);
	} else if (!strcmp(how, "lock")) {
		mlock((char *)((uintptr_t)cool & -4096), 8192);
		long before = locked();
		overwrite();
		printf("%ld kB, then %ld\n", before, locked());
	} else if (!strcmp(how, "fault")) {
		have_told();
	} else if (!strcmp(how, "store")) {
		write_jump(hot, other);
	} else {
		if (!strcmp(how, "limit"))
			limit();
		else
			filter();
		overwrite();
	}
	run_all();
	return 0;
}
