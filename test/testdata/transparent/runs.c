/* Processes that start others, and wrappers: observe WRAPPER PROG ARGS makes
 * something so and then executes PROG. */
#include "observe.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/stat.h>

extern char **environ;

/* A daemon by the book: its parent is gone, it has no descriptors, and it
 * works. observe reap waits for it. */
static int daemonizes(int argc, char **argv)
{
	(void)argc, (void)argv;
	say("leaves", 0);
	if (fork() != 0)
		_exit(0);
	setsid();
	if (fork() != 0)
		_exit(0);
	umask(0);
	if (chdir("/") != 0)
		_exit(1);
	closefrom(0);
	for (int i = 0; i < 3; i++)
		if (open("/dev/null", O_RDWR) != i)
			_exit(1);
	work();
	pid_t pid = fork();
	if (pid == 0) {
		work();
		_exit(0);
	}
	await(pid);
	work();
	_exit(0);
}

static int chain(int argc, char **argv)
{
	int left = argc > 1 ? atoi(argv[1]) : 0;
	char next[16];
	say("left", left);
	if (left == 0)
		return 5;
	snprintf(next, sizeof next, "%d", left - 1);
	execl("/proc/self/exe", "observe", "chain", next, (char *)0);
	return 126;
}

static int starts(int argc, char **argv)
{
	(void)argc, (void)argv;
	char *args[] = {"sh", "-c", "exit 4", 0}, line[64];
	pid_t pid = vfork();
	if (pid == 0) {
		step();
		execl("/bin/sh", "sh", "-c", "exit 3", (char *)0);
		_exit(127);
	}
	say("vfork", await(pid));
	say("posix_spawn", posix_spawn(&pid, "/bin/sh", 0, 0, args, environ));
	say("its status", await(pid));
	say("not there", posix_spawn(&pid, "/no/such", 0, 0, args, environ));
	say("system", system("exit 9"));
	FILE *p = popen("echo through a pipe", "r");
	if (p && fgets(line, sizeof line, p))
		fputs(line, stdout);
	say("popen", pclose(p));
	say("nobody is left", waitpid(-1, 0, __WALL));
	return 0;
}

/* Processes made without libc's knowledge. */
static int bare(int argc, char **argv)
{
	(void)argc, (void)argv;
	static const long numbers[] = {SYS_fork, SYS_clone};
	for (int i = 0; i < 2; i++) {
		pid_t pid = (pid_t)syscall(numbers[i], (long)SIGCHLD, 0L, 0L, 0L, 0L);
		if (pid == 0) {
			work();
			syscall(SYS_exit_group, 10L + i);
		}
		work();
		say("child", await(pid));
	}
	say("no such flags", syscall(SYS_clone, (long)CLONE_THREAD, 0L, 0L, 0L, 0L));
	say("no such call", syscall(9999L));
	say("six arguments", syscall(SYS_mmap, 0L, 4096L, (long)PROT_READ, (long)(MAP_PRIVATE | MAP_ANONYMOUS), -1L, 0L) > 0);
	return 0;
}

static volatile sig_atomic_t children;
static void on_child(int sig)
{
	(void)sig;
	children++;
}

/* Children that are announced, ignored, or blocked. */
static int announced(int argc, char **argv)
{
	(void)argc, (void)argv;
	signal(SIGCHLD, on_child);
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			work();
			_exit(i);
		}
		say("status", await(pid));
	}
	say("announced", children);
	signal(SIGCHLD, SIG_IGN);
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	say("nobody to wait for", waitpid(pid, 0, 0));
	return 0;
}

/* A parent to orphans: they, and nobody else, come here. */
static int adopts(int argc, char **argv)
{
	(void)argc, (void)argv;
	say("subreaper", prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
	pid_t pid = fork();
	if (pid == 0) {
		if (fork() == 0) {
			work();
			_exit(6);
		}
		_exit(5);
	}
	int sum = 0, status, n = 0;
	while (waitpid(-1, &status, __WALL) > 0) {
		sum += WEXITSTATUS(status);
		n++;
	}
	say("came", n);
	say("sum", sum);
	return 0;
}

/* One signal after the other, by order of the caller: says when it is ready. */
static int killed(int argc, char **argv)
{
	(void)argc, (void)argv;
	say("ready", 1);
	pause();
	return 1;
}

static volatile sig_atomic_t last_signal;
static void note(int sig) { last_signal = sig; }

static int handles(int argc, char **argv)
{
	(void)argc, (void)argv;
	static const int handled[] = {SIGHUP, SIGTERM, SIGUSR1, SIGUSR2};
	sigset_t set, old;
	sigemptyset(&set);
	for (unsigned i = 0; i < 4; i++) {
		signal(handled[i], note);
		sigaddset(&set, handled[i]);
	}
	sigprocmask(SIG_BLOCK, &set, &old);
	say("ready", 1);
	while (!last_signal)
		sigsuspend(&old);
	work();
	say("got", last_signal);
	return last_signal;
}

const struct command runs[] = {
	{"daemonizes", daemonizes},
	{"chain", chain},
	{"starts", starts},
	{"bare", bare},
	{"announced", announced},
	{"adopts", adopts},
	{"killed", killed},
	{"handles", handles},
	{0, 0},
};

/* ---- wrappers ---- */

static int go(char **argv)
{
	execvp(argv[0], argv);
	perror(argv[0]);
	return 127;
}

/* Executes the program behind a filter. */
static int go_filtered(struct sock_filter *code, unsigned short n, char **argv)
{
	struct sock_fprog program = {n, code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
		perror("seccomp");
		return 77;
	}
	return go(argv);
}

/* PR_SET_MDWE: what was not executable stays so. It survives exec. */
static int no_write_execute(int argc, char **argv)
{
	(void)argc;
	if (prctl(65, 1, 0, 0, 0) != 0) {
		perror("PR_SET_MDWE");
		return 77;
	}
	return go(argv + 1);
}

/* As systemd's MemoryDenyWriteExecute: mprotect may not make executable, mmap
 * may not map what is both. */
static int deny_execute(int argc, char **argv)
{
	(void)argc;
	enum { NR = offsetof(struct seccomp_data, nr), PROT = offsetof(struct seccomp_data, args[2]) };
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NR),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pkey_mprotect, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 4, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, PROT),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 4, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, PROT),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_WRITE | PROT_EXEC),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_WRITE | PROT_EXEC, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	return go_filtered(code, sizeof code / sizeof *code, argv + 1);
}

/* Five bytes cannot be written by pwrite, as where /proc/self/mem writes to no
 * text. */
static int deny_patches(int argc, char **argv)
{
	(void)argc;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwrite64, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 5, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	return go_filtered(code, sizeof code / sizeof *code, argv + 1);
}

/* Whoever asks for limits as libc has not for long is killed, as in services
 * (SystemCallFilter=~@resources of systemd.exec(5)). */
static int kill_limits(int argc, char **argv)
{
	(void)argc;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setrlimit, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrlimit, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	return go_filtered(code, sizeof code / sizeof *code, argv + 1);
}

/* Runs the program, and returns its status when all its descendants are gone. */
static int reap(int argc, char **argv)
{
	(void)argc;
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	pid_t pid = fork(), gone;
	if (pid == 0)
		return go(argv + 1);
	int status, own = 0;
	while ((gone = waitpid(-1, &status, 0)) > 0)
		if (gone == pid)
			own = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return own;
}

/* The program gets a child that it did not make. */
static int with_child(int argc, char **argv)
{
	(void)argc;
	if (fork() == 0)
		_exit(0);
	return go(argv + 1);
}

/* Who writes to stderr is killed. */
static int broken_stderr(int argc, char **argv)
{
	(void)argc;
	int end[2];
	if (pipe(end) != 0 || dup2(end[1], 2) != 2)
		return 77;
	close(end[0]);
	close(end[1]);
	return go(argv + 1);
}

static int controls(int argc, char **argv)
{
	(void)argc;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
	prctl(PR_SET_TIMERSLACK, 12345, 0, 0, 0);
	return go(argv + 1);
}

const struct command wraps[] = {
	{"-mdwe", no_write_execute},
	{"-deny-execute", deny_execute},
	{"-deny-patches", deny_patches},
	{"-kill-limits", kill_limits},
	{"-reap", reap},
	{"-with-child", with_child},
	{"-broken-stderr", broken_stderr},
	{"-controls", controls},
	{0, 0},
};
