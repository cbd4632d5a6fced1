/* System calls by which the kernel moves bytes between sockets and memory, where it is noted
 * what memory is touched: how many came back, and what they have moved, by their results. The
 * call itself is where the program has it: it may block, be interrupted, and be made again, and a
 * thread may be cancelled in it. What is behind it leads here (slowpath.S).
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/filters.h"
#include "base/mapped.h"
#include "base/own.h"
#include "base/regs.h"
#include "base/state.h"

struct moves {
	uint64_t calls, bytes, untold;
};
_Static_assert(DP_HDR_RECEIVE_BYTES == DP_HDR_RECEIVE_CALLS + offsetof(struct moves, bytes), "bytes");
_Static_assert(DP_HDR_RECEIVE_UNTOLD == DP_HDR_RECEIVE_CALLS + offsetof(struct moves, untold), "untold");
_Static_assert(DP_HDR_SEND_BYTES == DP_HDR_SEND_CALLS + offsetof(struct moves, bytes), "bytes");
_Static_assert(DP_HDR_SEND_UNTOLD == DP_HDR_SEND_CALLS + offsetof(struct moves, untold), "untold");

static long moved_by_those_here(const struct mmsghdr *messages, uint64_t n)
{
	long sum = 0;
	for (uint64_t i = 0; i < n; i++)
		sum += messages[i].msg_len;
	return sum;
}

/* The sum of what n messages have moved. What is not on the caller's stack is not read where it lies:
 * another thread may have taken the memory away, and then the program shall learn of it, and not here.
 * -1: it is not known. */
static long moved_by_messages(const struct dp_regs *r)
{
	enum { AT_ONCE = 8 };
	uint32_t lengths[AT_ONCE];
	struct iovec to = {lengths, 0}, from[AT_ONCE];
	uint64_t messages = r->rsi, n = r->rax, stack = dp_program_stack(r);
	if (dp_on_stack(messages, stack) && dp_on_stack(messages + n * sizeof(struct mmsghdr) - 1, stack))
		return moved_by_those_here((const struct mmsghdr *)messages, n);
	long sum = 0, self = own_task();
	while (n > 0) {
		uint64_t some = n < AT_ONCE ? n : AT_ONCE;
		for (uint64_t i = 0; i < some; i++, messages += sizeof(struct mmsghdr))
			from[i] = (struct iovec){(void *)(messages + offsetof(struct mmsghdr, msg_len)), sizeof lengths[0]};
		to.iov_len = some * sizeof lengths[0];
		if (ask(SYS_process_vm_readv, self, &to, 1, from, some, 0) != (long)to.iov_len)
			return -1;
		for (uint64_t i = 0; i < some; i++)
			sum += lengths[i];
		n -= some;
	}
	return sum;
}

/* With MSG_TRUNC the result of receiving is the length of what was there, and not of what was
 * stored. */
static long moved(uint32_t number, const struct dp_regs *r)
{
	switch (number) {
	case SYS_recvfrom:
		return r->r10 & MSG_TRUNC ? -1 : (long)r->rax;
	case SYS_recvmsg:
		return r->rdx & MSG_TRUNC ? -1 : (long)r->rax;
	case SYS_recvmmsg:
		return r->r10 & MSG_TRUNC ? -1 : moved_by_messages(r);
	case SYS_sendmmsg:
		return moved_by_messages(r);
	default:
		return (long)r->rax;
	}
}

static void add(uint64_t *to, uint64_t n) { __atomic_fetch_add(to, n, __ATOMIC_RELAXED); }

/* r->rax is the result, r->kept the number of the system call. */
void dp_transferred(const struct dp_regs *r) HIDDEN;
void dp_transferred(const struct dp_regs *r)
{
	if (dp_is_off())
		return;
	uint32_t number = (uint32_t)r->kept;
	int receives = number == SYS_recvfrom || number == SYS_recvmsg || number == SYS_recvmmsg;
	struct moves *m = dp_in_table(dp.table, receives ? DP_HDR_RECEIVE_CALLS : DP_HDR_SEND_CALLS);
	add(&m->calls, 1);
	if ((long)r->rax <= 0)
		return;
	long n = moved(number, r);
	if (n < 0)
		add(&m->untold, 1);
	else
		add(&m->bytes, (uint64_t)n);
}
