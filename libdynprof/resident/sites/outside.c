/* Before a program is executed that is to be counted from outside, who does that is told:
 *
 *  1. The thread connects to a socket that hotspots run listens at, and sends its number.
 *  2. That one begins to trace it (internal/ptrace, Follow), and answers, also if it cannot.
 *  3. The socket is closed, and the system call is made. In the new program the thread is
 *     stopped, patched, and let go; if the call fails it is let go.
 * Whoever does not answer in a few seconds, or is gone, counts nothing: the program is executed
 * all the same.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/filters.h"
#include "base/mapped.h"
#include "sites/outside.h"

/* Returns its length; 0: it is too long, or cannot be read. */
static uint64_t read_path(struct sockaddr_un *to, uint64_t path, uint64_t stack)
{
	to->sun_family = AF_UNIX;
	for (uint64_t i = 0; i < sizeof to->sun_path; i++) {
		if (!dp_read_argument(to->sun_path + i, path + i, 1, stack))
			return 0;
		if (!to->sun_path[i])
			return offsetof(struct sockaddr_un, sun_path) + i + 1;
	}
	return 0;
}

void dp_outside_follows(uint64_t path, uint64_t stack)
{
	enum { SECONDS = 10, TRIES = 100 };
	struct sockaddr_un to;
	struct timeval most = {SECONDS, 0};
	uint64_t size = read_path(&to, path, stack);
	long fd = size ? ask(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) : -1;
	if (failed(fd))
		return;
	int self = (int)ask(SYS_gettid);
	char answer;
	long got = ask(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
	if (!failed(got))
		got = ask(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
	/* Who is stopped, or has a handler run, is told EINTR. */
	int tries = TRIES;
	if (!failed(got))
		do
			got = ask(SYS_connect, fd, &to, size);
		while (got == -EINTR && tries-- > 0);
	if (!failed(got))
		do
			got = ask(SYS_sendto, fd, &self, sizeof self, MSG_NOSIGNAL, 0, 0);
		while (got == -EINTR && tries-- > 0);
	if (!failed(got))
		while (ask(SYS_recvfrom, fd, &answer, sizeof answer, 0, 0, 0) == -EINTR && tries-- > 0) {
		}
	ask(SYS_close, fd);
}
