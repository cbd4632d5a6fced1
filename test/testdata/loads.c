/* Loads a library where that cannot be planned as usual, and uses it: what is
 * around it, the library, where to change root to.
 *
 *	f  a seccomp filter that lets all through
 *	s  one that kills at all that it does not take itself
 *	u  another user, who may not open the table
 *	d  another directory
 *	r  another root, without /proc
 *
 * "around CMD..." executes CMD as one of many groups, under such a filter.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline, noclone)) int step(int x)
{
	__asm__ volatile("");
	return x + 1;
}

static int steps(int n)
{
	int x = 0;
	for (int i = 0; i < n; i++)
		x = step(x);
	return x;
}

static void install(struct sock_filter *code, unsigned short n)
{
	struct sock_fprog p = {n, code};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p);
}

static void filter(void)
{
	struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	install(code, 1);
}

static void strict_filter(void)
{
	static const unsigned taken[] = {SYS_openat, SYS_read, SYS_pread64, SYS_newfstatat, SYS_mmap, SYS_mprotect, SYS_munmap, SYS_close,
					 SYS_write, SYS_brk, SYS_clone, SYS_set_robust_list, SYS_wait4, SYS_exit_group};
	enum { N = sizeof taken / sizeof *taken };
	struct sock_filter code[2 * N + 2] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	for (unsigned i = 0; i < N; i++) {
		code[2 * i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, taken[i], 0, 1);
		code[2 * i + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[2 * N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	install(code, 2 * N + 2);
}

static int use(const char *library, const char *who)
{
	static unsigned char mine[1 << 16];
	void *handle = dlopen(library, RTLD_NOW);
	if (!handle) {
		puts(dlerror());
		return 1;
	}
	int (*work)(int) = (int (*)(int))dlsym(handle, "late_work");
	unsigned long (*take)(void *) = (unsigned long (*)(void *))dlsym(handle, "take");
	if (work)
		printf("%s work %d\n", who, work(300));
	mine[8] = 42;
	if (take && getauxval(AT_HWCAP2) & 2) /* FSGSBASE */
		printf("%s took %lu\n", who, take(mine));
	printf("%s steps %d\n", who, steps(500));
	int changed = 0;
	for (unsigned i = 0; i < sizeof mine; i++)
		changed += mine[i] != (i == 8 ? 42 : 0);
	printf("%s changed %d\n", who, changed);
	return 0;
}

static int around(char **command)
{
	static gid_t groups[3000];
	for (unsigned i = 0; i < sizeof groups / sizeof *groups; i++)
		groups[i] = 100000 + i;
	if (setgroups(sizeof groups / sizeof *groups, groups) != 0)
		return 2;
	filter();
	execvp(*command, command);
	return 2;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	if (strcmp(argv[1], "around") == 0)
		return around(argv + 2);
	printf("steps %d\n", steps(1000));
	if (strchr(argv[1], 'd') && chdir("/"))
		return 2;
	if (strchr(argv[1], 'r') && (chroot(argv[3]) || chdir("/")))
		return 2;
	if (strchr(argv[1], 'u') && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
		return 2;
	if (strchr(argv[1], 'f'))
		filter();
	if (strchr(argv[1], 's'))
		strict_filter();
	if (use(argv[2], "parent"))
		return 1;
	if (strchr(argv[1], 's')) { /* the list of objects changes, and nothing is new */
		void *handle = dlopen(argv[2], RTLD_NOW);
		dlclose(handle);
		dlclose(handle);
	}
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		printf("child steps %d\n", steps(50));
		_exit(fflush(stdout));
	}
	waitpid(child, 0, 0);
	return 0;
}
