/* Programs that give up system calls, then make threads and children. */
#include "observe.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static int strict(int argc, char **argv)
{
	(void)argc, (void)argv;
	fflush(stdout);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
		return 1;
	work();
	static const char done[] = "still here\n";
	if (write(1, done, sizeof done - 1) < 0)
		syscall(SYS_exit, 1);
	syscall(SYS_exit, 0);
	return 1;
}

/* Begins a filter that lets through the system calls listed. */
static int list(struct sock_filter *code, const int *allowed, int n)
{
	int at = 0;
	code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int i = 0; i < n; i++) {
		code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
		code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	return at;
}

/* Lets through tgkill and kill that send nothing, to threads of this process. */
static int probes(struct sock_filter *code, int at)
{
	const struct sock_filter more[] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 9),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_IMM, (unsigned)getpid()),
		BPF_STMT(BPF_ALU | BPF_SUB | BPF_X, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, ~0u, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	memcpy(code + at, more, sizeof more);
	return at + (int)(sizeof more / sizeof *more);
}

/* Kills the process at every system call that is not listed. How: "" by
 * seccomp, with TSYNC; "prctl"; "probes", see there; "errno" fails instead;
 * "broken" is refused by the kernel. */
static long filter(const char *how, const int *allowed, int n)
{
	struct sock_filter code[80];
	int at = list(code, allowed, n);
	unsigned otherwise = strcmp(how, "errno") == 0 ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_KILL_PROCESS;
	if (strcmp(how, "probes") == 0)
		at = probes(code, at);
	if (strcmp(how, "broken") != 0)
		code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
	else
		code[at - 1] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0);
	struct sock_fprog program = {(unsigned short)at, code};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (strcmp(how, "prctl") == 0)
		return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

#define ALLOW(how, ...) ({ static const int list_[] = {__VA_ARGS__}; filter(how, list_, sizeof list_ / sizeof *list_); })

static void *waits(void *arg)
{
	int *go = arg;
	while (!__atomic_load_n(go, __ATOMIC_ACQUIRE))
		sched_yield();
	work();
	return 0;
}

/* What threads need, by strace of this program, and no more. Threads that are
 * there already come under the filter, too, if it is installed so. */
static int sandbox_threads(int argc, char **argv)
{
	int many = argc > 1 ? atoi(argv[1]) : 1;
	const char *how = argc > 2 ? argv[2] : "";
	static int go;
	pthread_t t[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], 0, waits, &go);
	say("filter", ALLOW(how, SYS_read, SYS_write, SYS_futex, SYS_clone3, SYS_clone, SYS_rt_sigprocmask, SYS_mmap, SYS_munmap,
			   SYS_mprotect, SYS_madvise, SYS_exit, SYS_exit_group, SYS_rseq, SYS_set_robust_list, SYS_sched_yield, SYS_rt_sigreturn));
	__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], 0);
	for (int i = 0; i < many; i++)
		one_thread();
	pthread_t *all = calloc((size_t)many, sizeof *all);
	for (int i = 0; i < many; i++)
		pthread_create(&all[i], 0, thread, 0);
	for (int i = 0; i < many; i++)
		pthread_join(all[i], 0);
	say("done", many);
	return 0;
}

enum { CROWD = 1000 };
static pthread_barrier_t all_there;
static int vforks, waits_for_ever, ends_all, alone;

/* Some leave the whole process at the same time. */
static void leave_together(void)
{
	static int there;
	enum { TOGETHER = 4 };
	if (__atomic_fetch_add(&there, 1, __ATOMIC_SEQ_CST) >= TOGETHER)
		return;
	while (__atomic_load_n(&there, __ATOMIC_SEQ_CST) < TOGETHER)
		;
	_exit(5);
}

static void *in_crowd(void *arg)
{
	work();
	pthread_barrier_wait(&all_there);
	if (vforks) {
		pid_t pid = vfork();
		if (pid == 0)
			_exit(7);
		if (await(pid) != 7)
			_exit(9);
	}
	work();
	if (ends_all)
		pthread_barrier_wait(&all_there);
	if (ends_all && !alone)
		leave_together();
	if (waits_for_ever || ends_all)
		pthread_barrier_wait(&all_there);
	return arg;
}

/* Threads that the kernel does not make: they would have handlers of their own. */
static void refused(void)
{
	for (int i = 0; i < 3; i++)
		say("refused", syscall(SYS_clone, CLONE_VM | CLONE_THREAD, 0, 0, 0, 0) == -1 ? errno : 0);
}

/* So many threads at once, more than rows can have been made ready for. How: "" by
 * a filter that asks nobody's number; "vfork": each makes a child on its stack;
 * "vfork-blind": and may not ask for its number; "killed" while they are there;
 * "exits": some end the process at once; "apart": the first does, in a pid
 * namespace; "refused": more are asked for that are not made. */
static int sandbox_crowd(int argc, char **argv)
{
	if (argc > 2 && strcmp(argv[2], "apart") == 0) {
		pid_t pid = vfork();
		if (pid == 0)
			_exit(7);
		await(pid);
		fflush(stdout);
		pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
		if (pid != 0)
			return await(pid);
		alone = 1;
	}
	int many = argc > 1 ? atoi(argv[1]) : CROWD;
	const char *how = argc > 2 ? argv[2] : "";
	static pthread_t all[CROWD];
	vforks = strncmp(how, "vfork", 5) == 0;
	waits_for_ever = strcmp(how, "killed") == 0;
	ends_all = alone || strcmp(how, "exits") == 0;
	pthread_barrier_init(&all_there, 0, (unsigned)many + 1);
#define CROWDED SYS_write, SYS_futex, SYS_clone3, SYS_clone, SYS_rt_sigprocmask, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_exit, \
	SYS_exit_group, SYS_rseq, SYS_set_robust_list, SYS_brk, SYS_getrandom, SYS_rt_sigaction, SYS_vfork, SYS_wait4
	say("filter", alone || strcmp(how, "vfork") == 0 ? ALLOW("", CROWDED, SYS_getpid) : ALLOW("", CROWDED));
	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; i < many; i++)
			if (pthread_create(&all[i], 0, in_crowd, 0) != 0)
				return 3;
		if (strcmp(how, "refused") == 0)
			refused();
		pthread_barrier_wait(&all_there);
		if (ends_all)
			pthread_barrier_wait(&all_there);
		if (alone)
			_exit(5);
		if (waits_for_ever)
			syscall(SYS_kill, 0, 9); /* the filter does it */
		for (int i = 0; i < many; i++)
			pthread_join(all[i], 0);
	}
	say("done", many);
	return 0;
}

/* So many children, one after the other, then at once, and each with a thread. */
static int sandbox_brood(int argc, char **argv)
{
	int many = argc > 1 ? atoi(argv[1]) : CROWD, gate[2];
	static pid_t all[CROWD];
	fflush(stdout);
	if (pipe(gate) != 0)
		return 3;
	say("filter", ALLOW("", SYS_read, SYS_write, SYS_close, SYS_clone, SYS_clone3, SYS_wait4, SYS_exit, SYS_exit_group, SYS_set_robust_list, SYS_futex,
			    SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_rseq, SYS_brk, SYS_getrandom));
	for (int i = 0; i < many; i++) {
		if ((all[i] = fork()) == 0) {
			work();
			_exit(7);
		}
		if (await(all[i]) != 7)
			return 4;
	}
	for (int i = 0; i < many; i++)
		if ((all[i] = fork()) == 0) {
			char c;
			pthread_t t;
			close(gate[1]);
			pthread_create(&t, 0, thread, 0);
			pthread_join(t, 0);
			work();
			if (read(gate[0], &c, 1) != 0)
				_exit(8);
			_exit(7);
		}
	close(gate[1]);
	int ended = 0;
	for (int i = 0; i < many; i++)
		ended += await(all[i]) == 7;
	say("ended", ended);
	return 0;
}

/* What fork, wait and exit need, and no more. */
static int sandbox_forks(int argc, char **argv)
{
	int many = argc > 1 ? atoi(argv[1]) : 1;
	fflush(stdout);
	say("filter", ALLOW("", SYS_read, SYS_write, SYS_clone, SYS_wait4, SYS_exit_group, SYS_set_robust_list));
	for (int i = 0; i < many; i++)
		one_child();
	return 0;
}

/* A child that makes threads, and a child of its own. */
static int sandbox_family(int argc, char **argv)
{
	(void)argc, (void)argv;
	fflush(stdout);
	say("filter", ALLOW("", SYS_read, SYS_write, SYS_futex, SYS_clone3, SYS_clone, SYS_rt_sigprocmask, SYS_mmap, SYS_munmap, SYS_mprotect,
			    SYS_madvise, SYS_exit, SYS_exit_group, SYS_rseq, SYS_set_robust_list, SYS_wait4, SYS_getrandom, SYS_brk, SYS_rt_sigaction));
	pid_t pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 5; i++)
			one_thread();
		one_child();
		_exit(3);
	}
	work();
	say("child", await(pid));
	one_thread();
	return 0;
}

enum { SPAWNERS = 2, SPAWNED = 24 };

static void *spawns(void *arg)
{
	pthread_t t[SPAWNED];
	for (int i = 0; i < SPAWNED; i++)
		pthread_create(&t[i], 0, waits, arg);
	for (int i = 0; i < SPAWNED; i++)
		pthread_join(t[i], 0);
	return 0;
}

/* Threads are made while another installs the filter for all. */
static int sandbox_races(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	for (int n = 0; n < rounds; n++) {
		fflush(stdout);
		pid_t pid = fork();
		if (pid == 0) {
			static int go;
			pthread_t t[SPAWNERS];
			for (int i = 0; i < SPAWNERS; i++)
				pthread_create(&t[i], 0, spawns, &go);
			usleep((useconds_t)n * 50);
			long r = ALLOW("", SYS_futex, SYS_clone3, SYS_rt_sigprocmask, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_exit,
				       SYS_exit_group, SYS_rseq, SYS_set_robust_list, SYS_sched_yield, SYS_getrandom, SYS_brk, SYS_rt_sigaction);
			__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
			for (int i = 0; i < SPAWNERS; i++)
				pthread_join(t[i], 0);
			_exit((int)r + 9);
		}
		say("round", await(pid));
	}
	return 0;
}

/* No call at all but to write and to leave: everything is counted still. */
static int sandbox(int argc, char **argv)
{
	(void)argc, (void)argv;
	fflush(stdout);
	say("filter", ALLOW("", SYS_write, SYS_exit_group));
	work();
	say("done", 1);
	return 0;
}

const struct command sandboxes[] = {
	{"strict", strict},
	{"sandbox", sandbox},
	{"sandbox-threads", sandbox_threads},
	{"sandbox-crowd", sandbox_crowd},
	{"sandbox-brood", sandbox_brood},
	{"sandbox-forks", sandbox_forks},
	{"sandbox-family", sandbox_family},
	{"sandbox-races", sandbox_races},
	{0, 0},
};
