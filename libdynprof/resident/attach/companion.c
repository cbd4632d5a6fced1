/* Objects that come later in a program that was attached to: nobody in it can plan. Who has
 * attached may stay beside it (hotspots run, hotspots attach --for) and do it:
 *
 *  1. The thread in the dynamic linker connects to the socket that he listens at. Nobody may
 *     be there: then the objects are missed, at once.
 *  2. The control block and the reserve are mapped. He is told where, and reads and writes
 *     them by /proc/PID/mem: the reserve in a second mapping, as the first is of code, which
 *     may not become writable, nor the other code.
 *  3. He answers when he begins to change the table, and when the plan is there. Should he
 *     die the connection is closed.
 *  4. The plan comes into force as one of a twin's does (plans/late.c).
 * If he is alive and does not answer in time, he may yet write: what is mapped for that stays
 * mapped. No file is made, so that no descriptor but the socket can be taken along by a fork,
 * whose child closes it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "attach/companion.h"
#include "base/lock.h"
#include "base/pages.h"
#include "base/state.h"
#include "plans/scratch.h"

static struct {
	struct dp_companion is;
	int socket; /* and 1; 0: none is open */
	uint64_t writable;
} companion;

struct dp_companion dp_companion_is(const uint8_t *name, uint64_t size)
{
	struct dp_companion had = companion.is;
	companion.is = (struct dp_companion){.at.sun_family = AF_UNIX};
	if (!size || size > sizeof companion.is.at.sun_path)
		return had;
	for (uint64_t i = 0; i < size; i++)
		companion.is.at.sun_path[i] = (char)name[i];
	companion.is.size = offsetof(struct sockaddr_un, sun_path) + size;
	return had;
}

void dp_companion_was(const struct dp_companion *c) { companion.is = *c; }

static void hang_up(void)
{
	if (companion.socket)
		raw(SYS_close, companion.socket - 1);
	companion.socket = 0;
}

static void unmap(struct dp_session *s)
{
	if (companion.writable)
		raw(SYS_munmap, companion.writable, s->ctl->reserve_size);
	companion.writable = 0;
	if (s->ctl->reserve)
		raw(SYS_munmap, s->ctl->reserve, s->ctl->reserve_size);
	raw(SYS_munmap, s->ctl, s->scratch_size);
	s->ctl = 0;
}

static long map(uint64_t size, int prot) { return raw(SYS_mmap, 0, size, prot, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); }

/* Where new mappings are locked all their pages would be fetched: nothing is planned then. */
static int map_scratch(struct dp_session *s)
{
	s->scratch_size = pages(ctl_size(s));
	long at = dp_locks_new() ? -ENOMEM : map(s->scratch_size, PROT_READ | PROT_WRITE);
	if (failed(at))
		return 0;
	struct dp_ctl *ctl = s->ctl = (struct dp_ctl *)at;
	lay_lists(ctl, s);
	ctl->blocks = (uint64_t)s->blocks;
	ctl->reserve_size = stubs_take(s, 0) * copies_take(s);
	at = map(ctl->reserve_size, PROT_READ | PROT_EXEC);
	ctl->reserve = failed(at) ? 0 : (uint64_t)at;
	if (ctl->reserve)
		at = raw(SYS_mremap, ctl->reserve, 0, ctl->reserve_size, MREMAP_MAYMOVE);
	companion.writable = failed(at) ? 0 : (uint64_t)at;
	if (companion.writable && raw(SYS_mprotect, companion.writable, ctl->reserve_size, PROT_READ | PROT_WRITE) == 0)
		return 1;
	unmap(s);
	return 0;
}

enum { SECONDS = 10, TRIES = 100 }; /* who is stopped is told EINTR */

static int connect_to(void)
{
	struct timeval most = {SECONDS, 0};
	long fd = raw(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), got = fd;
	if (failed(fd))
		return 0;
	companion.socket = (int)fd + 1;
	got = raw(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
	if (!failed(got))
		got = raw(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
	for (int i = 0; !failed(got) && i < TRIES; i++)
		if ((got = raw(SYS_connect, fd, &companion.is.at, companion.is.size)) != -EINTR)
			break;
	return !failed(got);
}

static int tell(const struct dp_session *s)
{
	struct dp_asks asks = {(uint64_t)s->ctl, s->scratch_size, companion.writable, (uint64_t)raw(SYS_gettid), {0}};
	for (int i = 0; i < 16; i++)
		asks.nonce[i] = s->ctl->nonce[i] = dp.table->nonce[i];
	long got = -EINTR;
	for (int i = 0; got == -EINTR && i < TRIES; i++)
		got = raw(SYS_sendto, companion.socket - 1, &asks, sizeof asks, MSG_NOSIGNAL, 0, 0);
	return got == (long)sizeof asks;
}

/* What he answers; 0: he is gone, -1: not in time. */
static int hear(void)
{
	char answer = 0;
	long got = -EINTR;
	for (int i = 0; got == -EINTR && i < TRIES; i++)
		got = raw(SYS_recvfrom, companion.socket - 1, &answer, sizeof answer, 0, 0, 0);
	return got == 1 ? answer : got == -EAGAIN || got == -EINTR ? -1 : 0;
}

static const char *await(struct dp_session *s)
{
	int answer = hear();
	if (answer == DP_ANSWER_BEGUN)
		answer = hear();
	if (answer == DP_ANSWER_PLANNED)
		return s->ctl->status ? 0 : "there is no plan";
	if (answer == 0)
		return "who plans is gone";
	/* He may yet write. What was held for the arenas he never touches. */
	if (s->ctl->held)
		raw(SYS_munmap, s->ctl->held, s->ctl->held_size);
	s->ctl = 0;
	companion.writable = 0;
	return "who plans does not answer";
}

const char *dp_companion_plans(struct dp_session *s, void (*prepare)(struct dp_session *s), long *twin, int *reaped)
{
	*twin = 0;
	*reaped = 1;
	if (!companion.is.size)
		return "there is no planner";
	const char *why = "nobody is there to plan";
	if (connect_to()) {
		why = "no address space";
		if (map_scratch(s)) {
			prepare(s);
			why = tell(s) ? await(s) : "who plans is gone";
		}
	}
	hang_up();
	return why;
}

void dp_companion_is_through(struct dp_session *s)
{
	if (s->ctl)
		unmap(s);
}

/* What another thread was about is not this process's business. */
void dp_companion_forked(void)
{
	hang_up();
	companion.writable = 0;
}
