/* mlockall(MCL_CURRENT) locks everything that is mapped, and fails where all of it
 * is more than RLIMIT_MEMLOCK. What is ours shall neither count nor be locked.
 * So the system call is a kernel site, and we do what it does:
 *
 *  1. What the program has mapped is added up, by /proc/self/maps. If that is more
 *     than the limit, only who has CAP_IPC_LOCK may lock it, and the kernel is
 *     asked: with MCL_ONFAULT, so that nothing is fetched. What it has locked of
 *     ours is unlocked.
 *  2. Every mapping of the program's is locked, errors apart, as the kernel does.
 *  3. Mappings to come are its business: that takes no limit.
 * What is mapped of shared memory again is locked only if what it is a copy of is:
 * rows that come later are not. What objects that come later need is unlocked. Where /proc or the system calls are not to be had,
 * mlockall is made as it is.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/filters.h"
#include "base/kept.h"
#include "base/lock.h"
#include "base/own.h"
#include "base/pages.h"
#include "base/state.h"
#include "base/stub.h"

#ifndef MLOCK_ONFAULT
#define MLOCK_ONFAULT 1
#endif

enum { RANGES = DP_PAGE_SIZE / sizeof(struct dp_range) - 1 };

/* A page of them, and the next. */
struct owned {
	struct owned *next;
	uint64_t used; /* or more */
	struct dp_range ranges[RANGES]; /* high is 0 until both are known */
};

static struct owned first;
static uint32_t disowned; /* ranges that are free again */
enum { NOWHERE = 1 };	  /* their low */

static struct owned *next_of(struct owned *o)
{
	struct owned *next = __atomic_load_n(&o->next, __ATOMIC_ACQUIRE);
	if (next)
		return next;
	long more = ask(SYS_mmap, 0, sizeof *o, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(more))
		return 0;
	if (__atomic_compare_exchange_n(&o->next, &next, (struct owned *)more, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return (struct owned *)more;
	ask(SYS_munmap, more, sizeof *o); /* another thread was first */
	return next;
}

/* The range that begins there; 0: there is none. */
static struct dp_range *range_at(uint64_t low)
{
	for (struct owned *o = &first; o; o = __atomic_load_n(&o->next, __ATOMIC_ACQUIRE))
		for (uint64_t i = 0, n = __atomic_load_n(&o->used, __ATOMIC_RELAXED); i < n && i < RANGES; i++)
			if (__atomic_load_n(&o->ranges[i].low, __ATOMIC_RELAXED) == low)
				return &o->ranges[i];
	return 0;
}

void dp_disown(uint64_t at)
{
	for (struct dp_range *r; (r = range_at(at));) { /* more than once, if an object has several texts */
		__atomic_store_n(&r->high, 0, __ATOMIC_RELEASE);
		__atomic_store_n(&r->low, NOWHERE, __ATOMIC_RELEASE);
		__atomic_fetch_add(&disowned, 1, __ATOMIC_RELAXED);
	}
}

/* A range that is free again. */
static int own_again(uint64_t low, uint64_t high)
{
	uint64_t nowhere = NOWHERE;
	struct dp_range *r = __atomic_load_n(&disowned, __ATOMIC_RELAXED) ? range_at(NOWHERE) : 0;
	if (!r || !__atomic_compare_exchange_n(&r->low, &nowhere, low, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return 0;
	__atomic_fetch_sub(&disowned, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&r->high, high, __ATOMIC_RELEASE);
	return 1;
}

void dp_own(uint64_t at, uint64_t size)
{
	uint64_t n = RANGES;
	struct owned *o = &first;
	if (own_again(at & ~(uint64_t)(DP_PAGE_SIZE - 1), pages(at + size)))
		return;
	while ((n = __atomic_fetch_add(&o->used, 1, __ATOMIC_RELAXED)) >= RANGES)
		if (!(o = next_of(o)))
			return;
	o->ranges[n].low = at & ~(uint64_t)(DP_PAGE_SIZE - 1);
	__atomic_store_n(&o->ranges[n].high, pages(at + size), __ATOMIC_RELEASE);
}

static uint64_t list_one(struct dp_range *to, uint64_t most, uint64_t n, uint64_t low, uint64_t high)
{
	if (high <= low)
		return n;
	if (n < most)
		to[n] = (struct dp_range){low, high};
	return n + 1;
}

uint64_t dp_list_owned(struct dp_range *to, uint64_t most)
{
	uint64_t n = 0;
	for (struct owned *o = &first; o; o = o->next) {
		for (uint64_t i = 0; i < o->used && i < RANGES; i++)
			n = list_one(to, most, n, o->ranges[i].low, o->ranges[i].high);
		if (o->next)
			n = list_one(to, most, n, (uint64_t)o->next, (uint64_t)(o->next + 1));
	}
	for (const struct dp_kept *k = dp_all_kept; k; k = k->next)
		n = list_one(to, most, n, k->low, k->high);
	return n;
}

/* What is not mapped anew for each session. */
static void own_for_good(const struct dp_ctl *ctl)
{
	static struct dp_kept table, rows, discard, reserve;
	const struct dp_header *t = dp.table;
	uint64_t events = section_end(&t->events), fired = section_end(&t->fired);
	dp_note_kept(&table, t, events > fired ? events : fired);
	dp_note_kept(&rows, dp.chunks[0], 2 * dp.row_stride);
	dp_own((uint64_t)dp.discard, dp.row_stride);
	dp_note_kept(&discard, dp.discard, dp.row_stride);
	if (!ctl->keep)
		return;
	dp_own(ctl->reserve, 1);
	dp_note_kept(&reserve, (const void *)ctl->reserve, 1);
}

void dp_own_session(const struct dp_ctl *ctl)
{
	static struct dp_kept library;
	for (uint32_t i = 0; i < ctl->arenas_count; i++) {
		const struct dp_arena *a = &ctl->arenas[i];
		uint64_t size = a->size + a->pointers + a->view_size;
		dp_own(a->at, size);
		if (dp_locks_new())
			raw(SYS_munlock, a->at, size);
	}
	for (uint32_t i = 0; i < ctl->objects_count; i++) {
		const struct dp_object *o = &ctl->objects[i];
		if (!o->self)
			continue;
		dp_own(o->low, o->high - o->low);
		if (!ctl->late && !library.high) /* it is one */
			dp_note_kept(&library, (const void *)o->low, o->high - o->low);
	}
	if (!ctl->late)
		own_for_good(ctl);
}

static int locks_new;

int dp_locks_new(void) { return __atomic_load_n(&locks_new, __ATOMIC_RELAXED); }

/* Cuts [low, high), whose start is no one's, in front of what is ours; or, if its
 * start is ours, behind that. Returns whether it is ours. */
static int cut(uint64_t low, uint64_t *high)
{
	for (const struct owned *o = &first; o; o = __atomic_load_n(&o->next, __ATOMIC_ACQUIRE))
		for (uint64_t i = 0, n = __atomic_load_n(&o->used, __ATOMIC_RELAXED); i < n && i < RANGES; i++) {
			const struct dp_range *r = &o->ranges[i];
			uint64_t end = __atomic_load_n(&r->high, __ATOMIC_ACQUIRE), start = __atomic_load_n(&r->low, __ATOMIC_ACQUIRE);
			if (!end || __atomic_load_n(&r->high, __ATOMIC_ACQUIRE) != end) /* it comes, or goes */
				continue;
			if (low >= start && low < end) {
				*high = end < *high ? end : *high;
				return 1;
			}
			if (start > low && start < *high)
				*high = start;
		}
	return 0;
}

/* ---- mappings ----------------------------------------------------------- */

/* A line of /proc/self/maps: low-high rwxp offset major:minor inode path. */
struct mapping {
	uint64_t low, high, offset, major, minor, inode;
};

struct reader {
	long fd, n, at;
	char text[1024];
};

static int next_char(struct reader *r)
{
	if (r->at == r->n) {
		r->n = ask(SYS_read, r->fd, r->text, sizeof r->text);
		r->at = 0;
		if (r->n <= 0) {
			r->n = 0;
			return -1;
		}
	}
	return (uint8_t)r->text[r->at++];
}

static uint64_t number(struct reader *r, uint64_t base)
{
	uint64_t n = 0;
	for (int c;;) {
		c = next_char(r);
		uint64_t digit = c >= '0' && c <= '9' ? (uint64_t)(c - '0') : c >= 'a' && c <= 'f' ? (uint64_t)(c - 'a' + 10) : base;
		if (digit >= base)
			return n;
		n = n * base + digit;
	}
}

static int next_mapping(struct reader *r, struct mapping *m)
{
	int c;
	m->low = number(r, 16);
	m->high = number(r, 16);
	while ((c = next_char(r)) != ' ' && c >= 0) /* rwxp */
		;
	m->offset = number(r, 16);
	m->major = number(r, 16);
	m->minor = number(r, 16);
	for (m->inode = 0; (c = next_char(r)) >= '0' && c <= '9';)
		m->inode = m->inode * 10 + (uint64_t)(c - '0');
	while (c != '\n' && c >= 0)
		c = next_char(r);
	return m->high > m->low;
}

/* What is done with the mappings. */
struct locking {
	struct mapping table; /* one of the table */
	uint64_t theirs;      /* bytes of the program's */
	int lock;             /* do lock them, */
	long flags;           /* by these of mlock2 */
	int unlock;           /* unlock ours */
};

static int is_table(const struct locking *l, const struct mapping *m)
{
	return l->table.inode && m->inode == l->table.inode && m->major == l->table.major && m->minor == l->table.minor;
}

static void take(struct locking *l, const struct mapping *m)
{
	for (uint64_t low = m->low, high; low < m->high; low = high) {
		high = m->high;
		int ours = is_table(l, m) || cut(low, &high);
		if (ours && l->unlock)
			ask(SYS_munlock, low, high - low);
		if (ours)
			continue;
		l->theirs += high - low;
		if (l->lock)
			ask(SYS_mlock2, low, high - low, l->flags);
	}
}

/* Goes through all mappings; the first time to find the table's. */
static int walk(struct locking *l)
{
	struct reader r = {dp_open_own("maps", O_RDONLY), 0, 0, {0}};
	struct mapping m;
	enum { VSYSCALL = 47 };
	if (failed(r.fd))
		return 0;
	int any = 0;
	for (l->theirs = 0; next_mapping(&r, &m); any = 1) {
		if ((uint64_t)dp.table >= m.low && (uint64_t)dp.table < m.high)
			l->table = m;
		if (m.low >> VSYSCALL == 0) /* that page is nobody's */
			take(l, &m);
	}
	ask(SYS_close, r.fd);
	return any;
}

/* ---- mlockall ----------------------------------------------------------- */

static int may(void)
{
	return dp_may(SYS_openat, (uint64_t)AT_FDCWD, 0, O_RDONLY | O_CLOEXEC, 0) && dp_may(SYS_read, 0, 0, 0, 0) &&
	       dp_may(SYS_close, 0, 0, 0, 0) && dp_may(SYS_mlock2, 0, 0, 0, 0) && dp_may(SYS_munlock, 0, 0, 0, 0);
}

static long lock_all(long flags)
{
	struct rlimit limit = {0, 0};
	struct locking l = {0};
	if (!may() || ask(SYS_prlimit64, 0, RLIMIT_MEMLOCK, 0, &limit) != 0 || !walk(&l) || !walk(&l))
		return REFUSED;
	if (l.theirs > limit.rlim_cur) {
		long ret = ask(SYS_mlockall, MCL_CURRENT | MCL_ONFAULT | (flags & MCL_FUTURE));
		if (ret != 0)
			return ret;
		l.unlock = 1;
	} else if (limit.rlim_cur == 0) {
		return REFUSED;
	}
	l.lock = 1;
	l.flags = flags & MCL_ONFAULT ? MLOCK_ONFAULT : 0;
	walk(&l);
	if (flags & MCL_FUTURE)
		ask(SYS_mlockall, flags & (MCL_FUTURE | MCL_ONFAULT));
	return 0;
}

void dp_lock_all(struct dp_regs *r)
{
	uint64_t flags = r->rdi & 0xffffffff;
	if (!dp_may(SYS_mlockall, r->rdi, r->rsi, r->rdx, r->r10))
		return; /* it is the filter that answers */
	if (flags & MCL_FUTURE)
		__atomic_store_n(&locks_new, 1, __ATOMIC_RELAXED);
	if (!(flags & MCL_CURRENT) || flags & ~(uint64_t)(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT))
		return;
	long ret = lock_all((long)flags);
	if (ret == REFUSED && range_at(DP_SHADOW)) /* all of it would be fetched */
		ret = ask(SYS_mlockall, flags | MCL_ONFAULT);
	if (ret == REFUSED)
		return; /* as it is */
	r->rax = (uint64_t)ret;
	r->rcx += DP_THUNK_SYSCALL;
}
