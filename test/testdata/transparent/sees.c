/* What a program can read about itself. */
#include "observe.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>

extern char **environ;

static int environment(int argc, char **argv)
{
	(void)argc, (void)argv;
	for (char **e = environ; *e; e++)
		printf("%s\n", *e);
	printf("LD_PRELOAD=%s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "(unset)");
	fflush(stdout);
	say("system", system("env | sort"));
	return 0;
}

/* The kernel's view of the environment: the memory in which exec put it. */
static int kernel_environment(int argc, char **argv)
{
	(void)argc, (void)argv;
	char text[65536];
	int fd = open("/proc/self/environ", O_RDONLY);
	long n = read(fd, text, sizeof text);
	for (long i = 0; i < n; i++)
		putchar(text[i] ? text[i] : '\n');
	return 0;
}

/* A descriptor's target without its inode number. */
static void target(int fd, char *out, size_t size)
{
	char link[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	long n = readlink(link, out, size - 1);
	out[n > 0 ? n : 0] = 0;
	char *bracket = strchr(out, '[');
	if (bracket)
		*bracket = 0;
}

static void descriptors(const char *who)
{
	DIR *d = opendir("/proc/self/fd");
	char link[4096];
	int numbers[256], count = 0;
	for (struct dirent *e; d && (e = readdir(d)) != 0;)
		if (isdigit((unsigned char)e->d_name[0]) && atoi(e->d_name) != dirfd(d) && count < 256)
			numbers[count++] = atoi(e->d_name);
	if (d)
		closedir(d);
	printf("%s has %d\n", who, count);
	for (int i = 0; i < count; i++) {
		target(numbers[i], link, sizeof link);
		printf("%s %d %s %d %d %ld\n", who, numbers[i], link, fcntl(numbers[i], F_GETFD),
		       fcntl(numbers[i], F_GETFL), (long)lseek(numbers[i], 0, SEEK_CUR));
	}
	fflush(stdout);
}

static int fds(int argc, char **argv)
{
	(void)argc, (void)argv;
	descriptors("main");
	int low = open("/dev/null", O_RDONLY);
	say("lowest", low);
	close(low);
	pid_t pid = fork();
	if (pid == 0) {
		descriptors("child");
		exit(0);
	}
	say("child", await(pid));
	say("command", system("ls /proc/self/fd | wc -l"));
	return 0;
}

/* The lines of /proc/self/status that do not change from run to run, nor with what
 * the parent does meanwhile (FDSize). */
static void status_lines(void)
{
	static const char *const wanted[] = {
		"Name:", "Umask:", "TracerPid:", "Uid:", "Gid:", "Groups:", "CoreDumping:", "THP_enabled:",
		"Threads:", "SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:", "CapInh:", "CapPrm:", "CapEff:",
		"CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:", "Seccomp_filters:", "Cpus_allowed:", "Mems_allowed:", "VmLck:",
		"VmPin:", "HugetlbPages:",
	};
	FILE *f = fopen("/proc/self/status", "r");
	char line[1024];
	while (f && fgets(line, sizeof line, f))
		for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++)
			if (strncmp(line, wanted[i], strlen(wanted[i])) == 0)
				fputs(line, stdout);
	if (f)
		fclose(f);
	fflush(stdout);
}

static int signals(int argc, char **argv)
{
	(void)argc, (void)argv;
	for (int sig = 1; sig < 65; sig++) {
		struct { unsigned long handler, flags, restorer, mask; } a = {0};
		long r = syscall(SYS_rt_sigaction, sig, 0, &a, 8);
		printf("signal %d: %ld %lx %lx %lx\n", sig, r, a.handler, a.flags, a.mask);
	}
	unsigned long mask = 0, pending = 0;
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, &mask, 8);
	syscall(SYS_rt_sigpending, &pending, 8);
	printf("mask %lx pending %lx\n", mask, pending);
	stack_t alternate = {0};
	sigaltstack(0, &alternate);
	printf("alternate stack %p %d %zu\n", alternate.ss_sp, alternate.ss_flags, alternate.ss_size);
	status_lines();
	return 0;
}

static int limits(int argc, char **argv)
{
	(void)argc, (void)argv;
	for (int which = 0; which < RLIM_NLIMITS; which++) {
		struct rlimit l = {0, 0};
		getrlimit(which, &l);
		printf("limit %d: %ld %ld\n", which, (long)l.rlim_cur, (long)l.rlim_max);
	}
	return 0;
}

static void controls(void)
{
	static const struct { const char *name; int option; } asked[] = {
		{"dumpable", PR_GET_DUMPABLE}, {"keep capabilities", PR_GET_KEEPCAPS}, {"timing", PR_GET_TIMING},
		{"seccomp", PR_GET_SECCOMP}, {"securebits", PR_GET_SECUREBITS}, {"timer slack", PR_GET_TIMERSLACK},
		{"no new privileges", PR_GET_NO_NEW_PRIVS}, {"huge pages off", PR_GET_THP_DISABLE}, {"write xor execute", 66 /* PR_GET_MDWE */},
		{"input/output flusher", PR_GET_IO_FLUSHER},
	};
	for (unsigned i = 0; i < sizeof asked / sizeof *asked; i++)
		say(asked[i].name, prctl(asked[i].option, 0, 0, 0, 0));
	int value = -1;
	say("death signal", prctl(PR_GET_PDEATHSIG, &value) == 0 ? value : -1);
	say("subreaper", prctl(PR_GET_CHILD_SUBREAPER, &value) == 0 ? value : -1);
	say("time stamp counter", prctl(PR_GET_TSC, &value) == 0 ? value : -1);
	char name[17] = "";
	prctl(PR_GET_NAME, name);
	printf("name %s\n", name);
}

static void file_text(const char *path)
{
	char text[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	long n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	for (long i = 0; i < n; i++)
		if (!text[i])
			text[i] = '|';
	text[n > 0 ? n : 0] = 0;
	printf("%s: %s\n", path, text);
	if (fd >= 0)
		close(fd);
}

static void scheduling(void)
{
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	say("affinity", sched_getaffinity(0, sizeof cpus, &cpus));
	say("cpus", CPU_COUNT(&cpus));
	say("policy", sched_getscheduler(0));
	say("nice", getpriority(PRIO_PROCESS, 0));
	say("io priority", syscall(SYS_ioprio_get, 1, 0));
	for (int which = 0; which < 3; which++) {
		struct itimerval t;
		getitimer(which, &t);
		printf("timer %d: %ld.%06ld\n", which, (long)t.it_value.tv_sec, (long)t.it_value.tv_usec);
	}
	say("alarm", alarm(0));
}

static int count_entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;
	for (struct dirent *e; d && (e = readdir(d)) != 0;)
		n += isdigit((unsigned char)e->d_name[0]) != 0;
	if (d)
		closedir(d);
	return n;
}

static int process(int argc, char **argv)
{
	char dir[4096];
	for (int i = 1; i < argc; i++)
		printf("argument %s\n", argv[i]);
	say("child", waitpid(-1, 0, __WALL));
	say("child, no wait", waitpid(-1, 0, __WALL | WNOHANG));
	siginfo_t info;
	say("child by waitid", waitid(P_ALL, 0, &info, WEXITED | __WALL));
	say("threads", count_entries("/proc/self/task"));
	say("tid is pid", gettid() == getpid());
	say("directory", getcwd(dir, sizeof dir) != 0);
	printf("%s\n", dir);
	say("umask", (long)umask(022));
	say("group of the parent", getpgid(0) == getpgid(getppid()));
	say("session of the parent", getsid(0) == getsid(getppid()));
	say("terminal", open("/dev/tty", O_RDWR | O_CLOEXEC));
	say("uids", getuid() * 1000000L + geteuid());
	say("gids", getgid() * 1000000L + getegid());
	say("groups", getgroups(0, 0));
	say("personality", personality(0xffffffff));
	void *head = 0;
	size_t size = 0;
	say("robust list", syscall(SYS_get_robust_list, 0, &head, &size));
	printf("%d %zu\n", head != 0, size);
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct c[2] = {{0}, {0}};
	say("capget", syscall(SYS_capget, &h, c));
	printf("%x %x %x %x\n", c[0].effective, c[0].permitted, c[1].effective, c[1].inheritable);
	controls();
	scheduling();
	file_text("/proc/self/oom_score_adj");
	file_text("/proc/self/comm");
	file_text("/proc/self/cmdline");
	file_text("/proc/self/cgroup");
	file_text("/proc/self/coredump_filter");
	status_lines();
	return 0;
}

/* The heap grows where it did. */
static int heap(int argc, char **argv)
{
	(void)argc, (void)argv;
	enum { SIZE = 64 << 20 };
	char *start = sbrk(0), *grown = sbrk(SIZE);
	start[SIZE - 1] = 1;
	say("grows", grown == start);
	say("shrinks", sbrk(-SIZE) == start + SIZE);
	say("big", malloc(1L << 34) != 0);
	void *low = mmap((void *)0x10000000, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	say("low memory", low == (void *)0x10000000);
	return 0;
}

/* What was waited for before main shows here. */
static int children(int argc, char **argv)
{
	(void)argc, (void)argv;
	struct rusage u;
	struct tms t;
	getrusage(RUSAGE_CHILDREN, &u);
	times(&t);
	printf("size %ld faults %ld switches %ld ticks %ld\n", u.ru_maxrss, u.ru_minflt,
	       u.ru_nvcsw, (long)(t.tms_cutime + t.tms_cstime));
	return 0;
}

/* What a child sees once everything is closed. */
static int closing(int argc, char **argv)
{
	(void)argc, (void)argv;
	say("out", dup2(1, 100));
	pid_t pid = fork();
	if (pid == 0) {
		closefrom(0);
		work();
		int a = open("/dev/null", O_RDWR), b = open("/dev/null", O_RDWR);
		_exit(a * 16 + b);
	}
	say("closefrom", await(pid));
	pid = fork();
	if (pid == 0) {
		long r = syscall(SYS_close_range, 3, ~0U, 0);
		work();
		_exit((int)(r * 16 + open("/dev/null", O_RDWR)));
	}
	say("close_range", await(pid));
	for (int fd = 3; fd < 1024; fd++)
		if (fd != 100 && close(fd) == 0)
			printf("closed %d\n", fd);
	work();
	return 0;
}

const struct command sees[] = {
	{"environment", environment},
	{"kernel-environment", kernel_environment},
	{"fds", fds},
	{"signals", signals},
	{"limits", limits},
	{"process", process},
	{"heap", heap},
	{"children", children},
	{"closing", closing},
	{0, 0},
};
