/* Threads of a process, as /proc/PID/task tells of them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/tasks.h"

enum { BUFFER = 512 };

long dp_read_task(long tasks, const char *thread, const char *file, char *text, uint64_t size)
{
	char path[64];
	size_t n = text_copy(path, sizeof path, thread);
	text_copy(path + n, sizeof path - n, file);
	long fd = dp_open_kernels(tasks, path, O_RDONLY);
	long got = failed(fd) ? 0 : ask(SYS_read, fd, text, size - 1);
	if (!failed(fd))
		ask(SYS_close, fd);
	got = failed(got) ? 0 : got;
	text[got] = 0;
	return got;
}

uint64_t dp_number(const char **s)
{
	uint64_t n = 0;
	for (; **s >= '0' && **s <= '9'; ++*s)
		n = n * 10 + (uint64_t)(**s - '0');
	*s += **s == ' ';
	return n;
}

int dp_read_ran(long tasks, const char *thread, struct dp_ran *r)
{
	char text[80];
	const char *s = text;
	if (!dp_read_task(tasks, thread, "/schedstat", text, sizeof text))
		return 0;
	r->time = dp_number(&s);
	dp_number(&s); /* that it has waited for one, but only until it was given one last */
	r->times = dp_number(&s);
	return 1;
}

char dp_read_state(long tasks, const char *thread)
{
	char text[80]; /* pid (name) state ... */
	long n = dp_read_task(tasks, thread, "/stat", text, sizeof text);
	while (n > 0 && text[n] != ')')
		n--;
	return n ? text[n + 2] : 0;
}

/* The decimal digits of n behind prefix, and what follows. */
static void path_of(char *path, size_t size, const char *prefix, uint32_t n, const char *rest)
{
	char digits[12];
	size_t at = sizeof digits - 1, used = text_copy(path, size, prefix);
	digits[at] = 0;
	do
		digits[--at] = (char)('0' + n % 10);
	while (n /= 10);
	used += text_copy(path + used, size - used, digits + at);
	text_copy(path + used, size - used, rest);
}

int dp_runnable(uint32_t pid, uint64_t *time)
{
	char path[40], buffer[BUFFER] __attribute__((aligned(8)));
	path_of(path, sizeof path, "/proc/", pid, "/task");
	long size, tasks = ask(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int n = 0;
	*time = 0;
	if (failed(tasks))
		return 0;
	while (!failed(size = ask(SYS_getdents64, tasks, buffer, sizeof buffer)) && size > 0)
		for (const char *at = buffer; at < buffer + size; at += ((const struct dp_entry *)at)->size) {
			const char *thread = ((const struct dp_entry *)at)->name;
			struct dp_ran r;
			if (*thread == '.' || !dp_read_ran(tasks, thread, &r))
				continue;
			*time += r.time;
			n += dp_read_state(tasks, thread) == 'R';
		}
	ask(SYS_close, tasks);
	return n;
}

/* Whether no other thread runs: another initfirst library may have been
 * before us. Patching is safe only without. Asked first by a system call that
 * the dynamic linker has made too: a seccomp filter may kill at others. */
int dp_single_threaded(void)
{
	struct stat st;
	if (raw(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &st, 0) == 0)
		return st.st_nlink <= 3; /* ., .. and one thread */
	return raw(SYS_unshare, CLONE_THREAD) == 0; /* changes nothing; EINVAL with threads */
}
