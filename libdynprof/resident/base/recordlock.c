/* See recordlock.h. All its descriptors are looked at, not /proc/locks: who reads that waits
 * for all CPUs to have passed a quiet moment, 10 to 20 ms. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/recordlock.h"

/* No descriptor is as large: what the kernel's table has room for, else the greatest limit. */
static uint64_t descriptors(void)
{
	static const char name[] = "\nFDSize:\t"; /* among the first lines of proc_pid_status(5) */
	char text[512];
	struct rlimit limit;
	long fd = dp_open_own("status", O_RDONLY);
	long got = failed(fd) ? 0 : ask(SYS_read, fd, text, sizeof text - 1);
	if (!failed(fd))
		ask(SYS_close, fd);
	text[failed(got) ? 0 : got] = 0;
	const char *s = text;
	while (*s && !has_prefix(s, name))
		s++;
	if (!*s)
		return ask(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &limit) == 0 ? limit.rlim_max : 1 << 20;
	uint64_t n = 0;
	for (s += sizeof name - 1; *s >= '0' && *s <= '9'; s++)
		n = 10 * n + (uint64_t)(*s - '0');
	return n;
}

/* Whether a descriptor may be of the file. Nobody is asked over a network. One that is good for
 * its path only holds no lock. */
static int may_be(int fd, uint64_t inode)
{
	struct statx sx;
	struct stat st;
	long got = ask(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &sx);
	int is = got == 0 && sx.stx_ino == inode;
	if (got != 0) {
		if (got != -EBADF) /* no such call, or a filter */
			got = ask(SYS_fstat, fd, &st);
		is = got == 0 ? st.st_ino == inode : got != -EBADF;
	}
	long flags = is ? ask(SYS_fcntl, fd, F_GETFL) : 0;
	return is && (failed(flags) || !(flags & O_PATH));
}

long dp_opened_as(uint64_t inode)
{
	uint64_t n = descriptors();
	for (uint64_t fd = 0; fd < n; fd++)
		if (may_be((int)fd, inode))
			return (long)fd;
	return -EBADF;
}

int dp_may_be_locked(uint64_t inode) { return !failed(dp_opened_as(inode)); }
