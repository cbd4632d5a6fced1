/* inject REPORT CALL N ERRNO PROGRAM ARGS: runs the program, and has the Nth
 * system call with number CALL that the library or its twin makes fail with
 * ERRNO, or all from the Nth on if ERRNO is negative. CALL -1 is any of the
 * twin, but for futex, whose wake-ups cannot fail. ERRNO 0 kills the twin there instead. How many calls there were goes to
 * the file REPORT.
 *
 * The calls come here by SECCOMP_RET_USER_NOTIF: ptrace does not see the twin. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UNSUPPORTED = 77 };
enum { UNKNOWN = -1, UNUSABLE = -2, TAKEN = -3 }; /* in place of a descriptor */

/* In the child: the listener's number goes to *out, without a system call. */
static void hand_over(int which, volatile int *out)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)which, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, which < 0 ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	};
	struct sock_fprog program = {sizeof code / sizeof *code, code};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	*out = fd < 0 ? UNUSABLE : (int)fd;
	while (*out != TAKEN) /* exec will close it */
		;
}

static int value(pid_t pid, const char *key)
{
	char path[64], line[256];
	snprintf(path, sizeof path, "/proc/%d/status", pid);
	FILE *f = fopen(path, "r");
	int n = -1;
	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, key, strlen(key)) == 0)
			n = atoi(line + strlen(key));
	if (f)
		fclose(f);
	return n;
}

/* A twin has no exit signal (proc(5), /proc/PID/stat, field 38). */
static int is_twin(pid_t pid)
{
	char path[64], text[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY), field = 2;
	long n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	char *p = strrchr(text, ')');
	for (; p && *p && field < 38; p++)
		field += *p == ' ';
	return p && *p && atoi(p) == 0;
}

/* Whether the instruction belongs to the library. */
static int is_ours(pid_t pid, unsigned long at)
{
	char path[64], line[4400];
	int ours = 0;
	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	FILE *f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f)) {
		unsigned long low, high;
		if (sscanf(line, "%lx-%lx", &low, &high) == 2 && low <= at && at < high)
			ours = strstr(line, "libdynprof.so") != 0;
	}
	if (f)
		fclose(f);
	return ours;
}

/* The library does not plan what comes late if it sees that there is a filter,
 * this one too. It does not see it. */
static int looks_for_filters(pid_t pid, const struct seccomp_notif *in)
{
	static const char file[] = "/proc/self/status";
	char path[sizeof file] = "";
	struct iovec to = {path, sizeof path}, from = {(void *)in->data.args[1], sizeof path};
	return in->data.nr == SYS_openat && process_vm_readv(pid, &to, 1, &from, 1, 0) == sizeof path &&
	       memcmp(path, file, sizeof file) == 0 && is_ours(pid, in->data.instruction_pointer);
}

static int seen, call, nth, error_number;

static void judge(const struct seccomp_notif *in, struct seccomp_notif_resp *out)
{
	pid_t pid = value((pid_t)in->pid, "Tgid:");
	int twin = is_twin(pid);
	out->id = in->id;
	if (!twin && looks_for_filters(pid, in)) {
		out->error = -ENOENT;
		return;
	}
	out->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	if (call >= 0 && in->data.nr != call)
		return;
	if (!twin && (call < 0 || error_number == 0 || !is_ours(pid, in->data.instruction_pointer)))
		return;
	if (!twin && call == SYS_clone && !(in->data.args[0] & CLONE_UNTRACED))
		return; /* the program's own, by way of a kernel site */
	if (call < 0 && error_number != 0 && in->data.nr == SYS_futex)
		return;
	seen++;
	if (error_number == 0 && seen == nth) {
		kill(pid, SIGKILL);
	} else if (error_number != 0 && (seen == nth || (seen > nth && error_number < 0))) {
		out->flags = 0;
		out->error = error_number < 0 ? error_number : -error_number;
	}
}

int main(int argc, char **argv)
{
	if (argc < 6)
		return 2;
	int status = 0;
	call = atoi(argv[2]);
	nth = atoi(argv[3]);
	error_number = atoi(argv[4]);
	volatile int *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	*shared = UNKNOWN;
	pid_t pid = fork();
	if (pid == 0) {
		hand_over(call, shared);
		execvp(argv[5], argv + 5);
		_exit(127);
	}
	while (*shared == UNKNOWN)
		usleep(100);
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int listener = *shared < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, *shared, 0);
	if (listener < 0) {
		kill(pid, SIGKILL);
		return UNSUPPORTED;
	}
	*shared = TAKEN;
	struct pollfd wait[] = {{listener, POLLIN, 0}, {pidfd, POLLIN, 0}};
	while (poll(wait, 2, -1) >= 0 || errno == EINTR) {
		struct seccomp_notif in;
		struct seccomp_notif_resp out;
		if (wait[0].revents & POLLIN) {
			memset(&in, 0, sizeof in);
			memset(&out, 0, sizeof out);
			if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &in) != 0)
				continue; /* whoever asked is gone */
			judge(&in, &out);
			ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &out);
		} else if (wait[1].revents) {
			break;
		}
	}
	waitpid(pid, &status, 0);
	FILE *f = fopen(argv[1], "w");
	if (f) {
		fprintf(f, "%d\n", seen);
		fclose(f);
	}
	if (WIFSIGNALED(status))
		return 128 + WTERMSIG(status);
	return WEXITSTATUS(status);
}
