/* Threads of a process, as /proc/PID/task tells of them. */
#ifndef DYNPROF_TASKS_H
#define DYNPROF_TASKS_H

#include "base/raw.h"

/* What getdents64 returns. */
struct dp_entry {
	uint64_t inode, offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

/* Of a thread (/proc/PID/task/TID/schedstat), in ns. */
struct dp_ran {
	uint64_t time;  /* that it has run */
	uint64_t times; /* that it was given a CPU */
};

/* Reads the start of a thread's file into text, as a string; returns its length. */
long dp_read_task(long tasks, const char *thread, const char *file, char *text, uint64_t size) HIDDEN;

/* Reads a decimal number, and a blank behind it. */
uint64_t dp_number(const char **s) HIDDEN;

/* Returns 0 if it has ended, or is not told. */
int dp_read_ran(long tasks, const char *thread, struct dp_ran *r) HIDDEN;

/* Its state, as S if it sleeps (.../stat); 0 if it is not told. */
char dp_read_state(long tasks, const char *thread) HIDDEN;

/* How many threads of a process have a CPU or want one, and the time, in ns, that all of
 * them have run. */
int dp_runnable(uint32_t pid, uint64_t *time) HIDDEN;

/* Whether this process has no other thread. */
int dp_single_threaded(void) HIDDEN;

#endif
