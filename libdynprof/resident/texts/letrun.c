/* A thread that has been led somewhere by a branch, and lost its CPU, is there until
 * it gets one again: on a busy machine that may be long. The kernel tells how long
 * each thread has run, and how often it was given a CPU (/proc/PID/task/TID/schedstat:
 * time run, time waited, times): when one of the two is another, it has gone on. One
 * that sleeps (state S of .../stat) is in a system call.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <time.h>

#include "base/filters.h"
#include "texts/letrun.h"

enum { PATIENCE = 1000, BUFFER = 512, LEAST_ENTRY = 24 };

/* What getdents64 returns. */
struct entry {
	uint64_t inode, offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

static void tick(void)
{
	struct timespec millisecond = {0, 1000 * 1000};
	ask(SYS_nanosleep, &millisecond, 0);
}

/* Reads the start of a thread's file into text, as a string; returns its length. */
static long read_file(long tasks, const char *thread, const char *file, char *text, uint64_t size)
{
	char path[64];
	size_t n = text_copy(path, sizeof path, thread);
	text_copy(path + n, sizeof path - n, file);
	long fd = ask(SYS_openat, tasks, path, O_RDONLY | O_CLOEXEC);
	long got = failed(fd) ? 0 : ask(SYS_read, fd, text, size - 1);
	if (!failed(fd))
		ask(SYS_close, fd);
	got = failed(got) ? 0 : got;
	text[got] = 0;
	return got;
}

static uint64_t number(const char **s)
{
	uint64_t n = 0;
	for (; **s >= '0' && **s <= '9'; ++*s)
		n = n * 10 + (uint64_t)(**s - '0');
	*s += **s == ' ';
	return n;
}

struct ran {
	int waits; /* for a CPU, or to be looked at again */
	uint64_t time, times;
};

/* Returns 0 if it has ended, or is not told. */
static int read_ran(long tasks, const char *thread, struct ran *r)
{
	char text[80];
	const char *s = text;
	if (!read_file(tasks, thread, "/schedstat", text, sizeof text))
		return 0;
	r->time = number(&s);
	number(&s);
	r->times = number(&s);
	return 1;
}

static int sleeps(long tasks, const char *thread)
{
	char text[80]; /* pid (name) state ... */
	long n = read_file(tasks, thread, "/stat", text, sizeof text);
	while (n > 0 && text[n] != ')')
		n--;
	return n == 0 || text[n + 2] == 'S';
}

/* Whether a thread has not gone on since r was read, which the first look does. */
static int waits(long tasks, const char *thread, struct ran *r, int first)
{
	struct ran now;
	if (!read_ran(tasks, thread, &now))
		return 0;
	if (first)
		*r = now;
	return now.time == r->time && now.times == r->times && !sleeps(tasks, thread);
}

/* Looks at the threads of a buffer of the directory. Returns how many wait. */
static int look(long tasks, const char *buffer, long size, struct ran *ran, int first)
{
	uint64_t self = (uint64_t)ask(SYS_gettid);
	int n = 0;
	for (const char *at = buffer; at < buffer + size; at += ((const struct entry *)at)->size, ran++) {
		const char *thread = ((const struct entry *)at)->name, *name = thread;
		int other = *thread != '.' && number(&name) != self;
		ran->waits = other && (first || ran->waits) && waits(tasks, thread, ran, first);
		n += ran->waits;
	}
	return n;
}

void dp_let_all_run(void)
{
	char buffer[BUFFER] __attribute__((aligned(8)));
	struct ran ran[BUFFER / LEAST_ENTRY];
	long size;
	int patience = PATIENCE;
	tick();
	long tasks = ask(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (failed(tasks))
		return;
	while (!failed(size = ask(SYS_getdents64, tasks, buffer, sizeof buffer)) && size > 0)
		for (int first = 1; look(tasks, buffer, size, ran, first) > 0 && patience > 0; first = 0, patience--)
			tick();
	ask(SYS_close, tasks);
}
