/* What seccomp filters let us do. */
#ifndef DYNPROF_FILTERS_H
#define DYNPROF_FILTERS_H

#include <signal.h>

#include "base/raw.h"
#include "base/regs.h"

/* A system call that the filters in force let through may be made between
 * dp_enter, which returns 0 if it is not so, and dp_leave, which is given what that
 * returned. */
int dp_enter(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) HIDDEN;
void dp_leave(int entered) HIDDEN;
/* Whether it would be let through now. */
int dp_may(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d) HIDDEN;
/* This process is new: nobody else is in it. */
void dp_alone(void) HIDDEN;
/* Whether the program has installed a filter, as far as we saw. */
int dp_filtered(void) HIDDEN;

/* Whether these filters do no more than refuse (verdict.h). room: BPF_MAXINSNS bytes. */
int dp_filters_only_refuse(uint8_t *room) HIDDEN;

/* Whether the system call at a kernel site may install a filter. Then it is read, once
 * (0: it could not be, for want of memory); all is made ready for it by
 * dp_filter_comes, and dp_filter_done is told the result. */
struct dp_filter;
int dp_installs_filter(const struct dp_regs *r) HIDDEN;
struct dp_filter *dp_filter_read(const struct dp_regs *r) HIDDEN;
/* Whether it looks at where system calls are made. */
int dp_filter_sees_addresses(const struct dp_regs *r, const struct dp_filter *f) HIDDEN;
void dp_filter_comes(struct dp_regs *r, struct dp_filter *f) HIDDEN;
/* In place of dp_filter_comes. */
void dp_filter_drop(struct dp_filter *f) HIDDEN;
void dp_filter_done(struct dp_regs *r) HIDDEN;

/* The mask around a system call of the program's: SIGSYS, by which a filter may have
 * the program answer it itself, kills if it is blocked. */
#define DP_ALL_BUT_SIGSYS (~(1ULL << (31 - 1)))

/* Signals, bit SIG - 1: that have had a handler, of which none goes back; that are ignored
 * because somebody said so (SIG_IGN). */
extern uint64_t dp_handled HIDDEN, dp_ignored HIDDEN;

/* All signals, but those that do nothing, as there is no handler for them. The kernel drops
 * these, unless the first thread blocks them: then it keeps one, and wakes another thread
 * for it, whose system call ends with EINTR. SIGCHLD comes whenever a child ends. */
static inline uint64_t dp_to_block(void)
{
	uint64_t idle = 1ULL << (SIGCHLD - 1) | 1ULL << (SIGCONT - 1) | 1ULL << (SIGURG - 1) | 1ULL << (SIGWINCH - 1);
	idle |= __atomic_load_n(&dp_ignored, __ATOMIC_RELAXED);
	return ~(idle & ~__atomic_load_n(&dp_handled, __ATOMIC_RELAXED));
}

/* ask(SYS_x, ...): as raw(SYS_x, ...), but REFUSED if a filter would not let it
 * through: some kill. */
enum { REFUSED = -4095 };
static inline long ask6(long nr, long a, long b, long c, long d, long e, long f)
{
	int entered = dp_enter(nr, (uint64_t)a, (uint64_t)b, (uint64_t)c, (uint64_t)d, (uint64_t)e, (uint64_t)f);
	if (!entered)
		return REFUSED;
	long ret = raw6(nr, a, b, c, d, e, f);
	dp_leave(entered);
	return ret;
}
#define ASK1(n) ask6(n, 0, 0, 0, 0, 0, 0)
#define ASK2(n, a) ask6(n, (long)(a), 0, 0, 0, 0, 0)
#define ASK3(n, a, b) ask6(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define ASK4(n, a, b, c) ask6(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define ASK5(n, a, b, c, d) ask6(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define ASK6(n, a, b, c, d, e) ask6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define ASK7(n, a, b, c, d, e, f) ask6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define ask(...) RAW_SELECT(__VA_ARGS__, ASK7, ASK6, ASK5, ASK4, ASK3, ASK2, ASK1)(__VA_ARGS__)

#endif
