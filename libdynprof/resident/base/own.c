/* See own.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>

#include <linux/magic.h>
#include <sys/vfs.h>

#include "base/own.h"

/* Whether it is on /proc, or where control groups are, or, in a filter, cannot be told. */
static int is_kernels(long fd)
{
	struct statfs fs;
	long got = ask(SYS_fstatfs, fd, &fs);
	if (failed(got))
		return got == REFUSED;
	return fs.f_type == PROC_SUPER_MAGIC || fs.f_type == CGROUP2_SUPER_MAGIC || fs.f_type == CGROUP_SUPER_MAGIC;
}

long dp_open_kernels(long directory, const char *path, long flags)
{
	long fd = ask(SYS_openat, directory, path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (failed(fd) || is_kernels(fd))
		return fd;
	ask(SYS_close, fd);
	return -ENOENT;
}

static long open_in(const char *directory, const char *file, long flags)
{
	char path[64];
	size_t n = text_copy(path, sizeof path, directory);
	text_copy(path + n, sizeof path - n, file);
	return dp_open_kernels(AT_FDCWD, path, flags);
}

long dp_open_own(const char *file, long flags)
{
	long fd = open_in("/proc/thread-self/", file, flags);
	return failed(fd) ? open_in("/proc/self/", file, flags) : fd;
}
