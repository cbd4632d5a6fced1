/* This process, by way of a thread of it that lives. When the first thread has ended
 * (pthread_exit in main) and others go on, it stays as a zombie without memory: what
 * the process's number stands for, and /proc/self with it, is empty. */
#ifndef DYNPROF_OWN_H
#define DYNPROF_OWN_H

#include "base/filters.h"

/* Opens a file of /proc or of a control group. In another root, or under another mount,
 * what has its name may be anything, also a pipe that nobody writes to, or a file without
 * an end: then it is not there. */
long dp_open_kernels(long directory, const char *path, long flags) HIDDEN;

/* Opens FILE of /proc/thread-self, or, where that is not to be had, of /proc/self. */
long dp_open_own(const char *file, long flags) HIDDEN;

/* The number for process_vm_readv and process_vm_writev. */
static inline long own_task(void)
{
	long tid = ask(SYS_gettid);
	return failed(tid) ? ask(SYS_getpid) : tid;
}

#endif
