/* Seccomp filters that the program installs, and what they think of us.
 *
 * A filter may kill at a system call that the program itself would never make.
 * So we learn of each before it is in force, at the kernel sites (libc's prctl
 * and syscall), and ask our copy of it before every system call of ours:
 *  1. The installer's thunk comes to birth.c. The filter's code is copied, and what
 *     is asked of it is asked of the copy: other threads may be writing it. What may
 *     be needed later and may be forbidden then is done now: rows are stocked (rows.c).
 *  2. The copy is linked in front of the older ones: from now on dp_enter asks it. The
 *     code of a filter changes no more, and the list only grows.
 *  3. Who is between dp_enter and dp_leave may have asked without it: he is waited
 *     for, asleep, as on a busy machine he may want for a CPU in front of his system
 *     call; a while at most, as it may be the thread that a handler of which we run
 *     on. Who enters from now on, as a thread does that mostly sleeps in the kernel, is
 *     not: everybody enters on one of two sides, and the side is changed. Twice: who
 *     has seen which side it is, and does not enter yet, may do so after the first.
 *  4. The system call is made. If it fails, the copy is marked: it is no filter.
 * Filters that were there when the program started let it load libraries and
 * start; they are not asked.
 */
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/filters.h"
#include "base/own.h"
#include "base/pages.h"
#include "base/regs.h"
#include "base/state.h"
#include "base/verdict.h"

uint64_t dp_handled, dp_ignored;

struct dp_filter {
	struct dp_filter *older;
	uint32_t none;    /* it was not installed after all */
	uint32_t listens; /* a result above 0 is no failure but a descriptor */
	uint32_t room; /* instructions, */
	uint32_t len;  /* and those that could be read: all or none */
	struct sock_filter code[]; /* none: forbids all, as strict mode nearly does */
};

/* slowpath.S enters by itself, where it has no stack. */
struct dp_filter *dp_filters HIDDEN; /* the newest */
uint32_t dp_forbidden HIDDEN;        /* there is a filter of which there is no copy: nothing may be done */
uint32_t dp_side HIDDEN;             /* the lowest bit: where who enters is counted, */
uint32_t dp_inside[2] HIDDEN;        /* threads between dp_enter and dp_leave */

static int allowed(const struct seccomp_data *data)
{
	if (__atomic_load_n(&dp_forbidden, __ATOMIC_SEQ_CST))
		return 0;
	for (const struct dp_filter *f = __atomic_load_n(&dp_filters, __ATOMIC_SEQ_CST); f; f = f->older) {
		if (__atomic_load_n(&f->none, __ATOMIC_ACQUIRE))
			continue;
		uint32_t action = dp_verdict(f->code, f->len, data) & SECCOMP_RET_ACTION_FULL;
		if (action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_LOG)
			return 0;
	}
	return 1;
}

int dp_enter(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
	int on = __atomic_load_n(&dp_side, __ATOMIC_SEQ_CST) & 1;
	__atomic_fetch_add(&dp_inside[on], 1, __ATOMIC_SEQ_CST);
	if (!dp_filtered())
		return 1 + on;
	struct seccomp_data data = {(int)nr, AUDIT_ARCH_X86_64, (uint64_t)&dp_enter, {a, b, c, d, e, f}};
	if (allowed(&data))
		return 1 + on;
	dp_leave(1 + on);
	return 0;
}

void dp_leave(int entered)
{
	__atomic_fetch_sub(&dp_inside[entered - 1], 1, __ATOMIC_SEQ_CST);
}

int dp_may(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	int entered = dp_enter(nr, a, b, c, d, 0, 0);
	if (entered)
		dp_leave(entered);
	return entered != 0;
}

void dp_alone(void)
{
	dp_inside[0] = dp_inside[1] = 0;
}

int dp_filtered(void)
{
	return __atomic_load_n(&dp_filters, __ATOMIC_SEQ_CST) || __atomic_load_n(&dp_forbidden, __ATOMIC_SEQ_CST);
}

int dp_filters_only_refuse(uint8_t *room)
{
	if (__atomic_load_n(&dp_forbidden, __ATOMIC_SEQ_CST))
		return 0;
	for (const struct dp_filter *f = __atomic_load_n(&dp_filters, __ATOMIC_SEQ_CST); f; f = f->older)
		if (!__atomic_load_n(&f->none, __ATOMIC_ACQUIRE) && !dp_only_refuses(f->code, f->len, room))
			return 0;
	return 1;
}

/* What a system call installs. */
struct installed {
	int any;     /* 0: nothing; programs ask with a null pointer whether they could */
	int strict;
	uint64_t program; /* struct sock_fprog * */
	uint32_t listens;
};

static struct installed installs(const struct dp_regs *r)
{
	struct installed it = {0};
	if ((uint32_t)r->rax == SYS_prctl && (uint32_t)r->rdi == PR_SET_SECCOMP) {
		it.strict = r->rsi == SECCOMP_MODE_STRICT;
		it.program = r->rsi == SECCOMP_MODE_FILTER ? r->rdx : 0;
	} else if ((uint32_t)r->rax == SYS_seccomp) {
		it.strict = (uint32_t)r->rdi == SECCOMP_SET_MODE_STRICT;
		it.program = (uint32_t)r->rdi == SECCOMP_SET_MODE_FILTER ? r->rdx : 0;
		it.listens = (r->rsi & SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0;
	}
	it.any = it.strict || it.program;
	return it;
}

/* By way of the kernel, which knows bad addresses. */
static int read_memory(void *to, uint64_t from, uint64_t size)
{
	struct { uint64_t base, len; } local = {(uint64_t)to, size}, remote = {from, size};
	return ask(SYS_process_vm_readv, own_task(), &local, 1, &remote, 1, 0) == (long)size;
}

static void add(struct dp_filter *f)
{
	struct dp_filter *head = __atomic_load_n(&dp_filters, __ATOMIC_SEQ_CST);
	do
		f->older = head;
	while (!__atomic_compare_exchange_n(&dp_filters, &head, f, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}

#ifndef MOST_NAPS /* the test has others */
#define MOST_NAPS 500 /* milliseconds */
#endif

/* Waits for all who have entered until now. naps: the filters until now let us sleep. */
static void await_others(int naps)
{
	enum { PAUSES = 1 << 12 };
	struct timespec tick = {0, 1000 * 1000};
	for (int change = 0; change < 2; change++) {
		uint32_t *left = &dp_inside[__atomic_fetch_add(&dp_side, 1, __ATOMIC_SEQ_CST) & 1];
		for (int i = 0; i < MOST_NAPS && __atomic_load_n(left, __ATOMIC_SEQ_CST); i++) {
			for (int k = 0; k < PAUSES && __atomic_load_n(left, __ATOMIC_SEQ_CST); k++)
				__builtin_ia32_pause();
			if (naps && __atomic_load_n(left, __ATOMIC_SEQ_CST))
				raw(SYS_nanosleep, &tick, 0);
		}
	}
}

int dp_installs_filter(const struct dp_regs *r) { return installs(r).any; }

struct dp_filter *dp_filter_read(const struct dp_regs *r)
{
	struct installed it = installs(r);
	struct sock_fprog p = {0, 0};
	int whole = !it.strict && read_memory(&p, it.program, sizeof p);
	uint64_t bytes = p.len * sizeof *p.filter;
	long at = ask(SYS_mmap, 0, pages(sizeof(struct dp_filter) + bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(at))
		return 0;
	struct dp_filter *f = (struct dp_filter *)at;
	f->listens = it.listens;
	f->room = p.len;
	if (whole && read_memory(f->code, (uint64_t)p.filter, bytes))
		f->len = p.len;
	return f;
}

void dp_filter_drop(struct dp_filter *f)
{
	if (f)
		ask(SYS_munmap, f, pages(sizeof *f + f->room * sizeof *f->code));
}

static int sees_addresses(const struct sock_filter *code, uint32_t n)
{
	enum { AT = offsetof(struct seccomp_data, instruction_pointer) };
	for (const struct sock_filter *i = code; i < code + n; i++)
		if (BPF_CLASS(i->code) == BPF_LD && BPF_MODE(i->code) == BPF_ABS && i->k - AT < sizeof(uint64_t))
			return 1;
	return 0;
}

/* Without a copy: the little room that there is has a part of it at a time. */
static int parts_see_addresses(const struct dp_regs *r)
{
	struct sock_fprog p = {0, 0};
	struct sock_filter some[16];
	enum { AT_ONCE = sizeof some / sizeof *some };
	uint64_t program = installs(r).program;
	if (!program || !read_memory(&p, program, sizeof p))
		return 0;
	for (uint32_t at = 0; at < p.len; at += AT_ONCE) {
		uint32_t n = p.len - at < AT_ONCE ? p.len - at : AT_ONCE;
		if (!read_memory(some, (uint64_t)(p.filter + at), n * sizeof *some))
			return 0;
		if (sees_addresses(some, n))
			return 1;
	}
	return 0;
}

int dp_filter_sees_addresses(const struct dp_regs *r, const struct dp_filter *f)
{
	return f ? sees_addresses(f->code, f->len) : parts_see_addresses(r);
}

void dp_filter_comes(struct dp_regs *r, struct dp_filter *f)
{
	dp_no_tsc |= installs(r).strict;
	int naps = dp_may(SYS_nanosleep, 0, 0, 0, 0);
	if (f)
		add(f);
	else
		__atomic_store_n(&dp_forbidden, 1, __ATOMIC_SEQ_CST);
	await_others(naps);
	r->kept = (uint64_t)f;
}

void dp_filter_done(struct dp_regs *r)
{
	struct dp_filter *f = (struct dp_filter *)r->kept;
	if (f && r->rax != 0 && (failed((long)r->rax) || !f->listens))
		__atomic_store_n(&f->none, 1, __ATOMIC_RELEASE);
}
