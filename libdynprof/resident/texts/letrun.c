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
#include "base/tasks.h"
#include "texts/letrun.h"

enum { PATIENCE = 1000, BUFFER = 512, LEAST_ENTRY = 24 };

static void tick(void)
{
	struct timespec millisecond = {0, 1000 * 1000};
	ask(SYS_nanosleep, &millisecond, 0);
}

struct ran {
	int waits; /* for a CPU, or to be looked at again */
	struct dp_ran last;
};

/* Or has ended: the process's first thread stays, as a zombie. */
static int sleeps(long tasks, const char *thread)
{
	char state = dp_read_state(tasks, thread);
	return state == 0 || state == 'S' || state == 'Z' || state == 'X';
}

/* Whether a thread has not gone on since r was read, which the first look does. */
static int waits(long tasks, const char *thread, struct ran *r, int first)
{
	struct dp_ran now;
	if (!dp_read_ran(tasks, thread, &now))
		return 0;
	if (first)
		r->last = now;
	return now.time == r->last.time && now.times == r->last.times && !sleeps(tasks, thread);
}

/* Looks at the threads of a buffer of the directory. Returns how many wait. */
static int look(long tasks, const char *buffer, long size, struct ran *ran, int first)
{
	uint64_t self = (uint64_t)ask(SYS_gettid);
	int n = 0;
	for (const char *at = buffer; at < buffer + size; at += ((const struct dp_entry *)at)->size, ran++) {
		const char *thread = ((const struct dp_entry *)at)->name, *name = thread;
		int other = *thread != '.' && dp_number(&name) != self;
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
