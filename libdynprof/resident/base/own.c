/* See own.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>

#include <sys/stat.h>

#include "base/own.h"

/* Whether it is a file that can be read to its end, or a directory; in a filter that cannot
 * be told. */
static int has_end(long fd)
{
	struct stat st;
	long got = ask(SYS_fstat, fd, &st);
	if (failed(got))
		return got == REFUSED;
	return S_ISREG(st.st_mode) || S_ISDIR(st.st_mode);
}

long dp_open_kernels(long directory, const char *path, long flags)
{
	long fd = ask(SYS_openat, directory, path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (failed(fd) || has_end(fd))
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
