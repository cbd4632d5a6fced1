/* Where a program is attached to no unwinder knows our code, so that nothing could be thrown out
 * of a handler that it calls, nor be seen behind one. There a handler is entered as the kernel
 * has called it, with the program's own restorer as its return address:
 *
 *  1. The restorer, which unwinders know by its call frame information, is a kernel site
 *     (patcher/returns.go), whose thunk comes to dp_return_site.
 *  2. What dp_depart has to know is kept in the frame, in words of the context that the kernel
 *     neither writes nor reads (sigcontext's reserved1), as who copies the context, and
 *     what lies above it, must find all that there is where the kernel has put it.
 *  3. A mark says so: it is made of the frame's address, and of a number that no one who
 *     was attached before has had. So what others have left there, or have copied from elsewhere,
 *     is not taken for it; who exchanges the context for another gets that led into copies.
 *  4. In front of the program's own system call, which is made at its own address, the context is
 *     put back.
 * When the program is detached from while a handler runs, the restorer is the program's again, and
 * what the context shows is where the thread goes on. So, where text is given back while threads
 * run, the restorer's is last (texts/giveback.c).
 *
 * A handler that has been shown another that is about to begin is called by us all the same: who
 * detaches has to know of it, as what that one has interrupted has yet to be shown. So are those
 * whose restorer unwinders know by its bytes, as musl's.
 */
#define _GNU_SOURCE
#include "signals/kept.h"

#include "base/context.h"
#include "base/stub.h"
#include "signals/entries.h"
#include "signals/flags.h"
#include "stubs/arenas.h"
#include "stubs/redirect.h"

enum { SETUP = 7 }; /* mov $15,%rax */
enum { RESERVED = 232 / 8, RAX_DIFFERS = 1, IS_GO = 2, IS_MARKED = 4 };

struct kept {
	uint64_t mark;
	uint64_t rip; /* as it was */
	uint64_t to_rip, to_rsp;
	uint64_t was, to_was; /* rax, if it differs, or the other register */
	uint32_t eflags, to_eflags;
	int32_t resume; /* from rip on */
	int16_t rsp;	/* from to_rsp on */
	uint8_t other, flags;
};
_Static_assert(sizeof(struct kept) == 64, "sigcontext's reserved1");

uint64_t dp_kept_mark, dp_kept_site;
int dp_kept_no_more;

static struct kept *kept_in(uint64_t *context) { return (struct kept *)(context + RESERVED); }

/* How is 1 where a context was changed. */
static uint64_t mark_of(const uint64_t *context, int how)
{
	uint64_t mixed = ((uint64_t)context ^ dp_kept_mark) * 0x9e3779b97f4a7c15;
	return (mixed ^ mixed >> 32) << 1 | (uint64_t)how;
}

int dp_is_taken(uint64_t restorer)
{
	const struct dp_known *c = dp_arena_of_text(restorer);
	if (!c || __atomic_load_n((const uint8_t *)restorer, __ATOMIC_ACQUIRE) != DP_OP_JMP)
		return 0;
	uint64_t thunk = dp_jump_target(restorer);
	return thunk >= c->at && thunk < c->cold && dp_thunk_leads_to(thunk, SETUP) == dp_kept_site;
}

/* Where it does not fit in it is not kept. */
static int keep(struct kept *k, const struct dp_shown *s)
{
	int64_t resume = (int64_t)(s->resume - s->rip), rsp = (int64_t)(s->rsp - s->to_rsp);
	int rax = s->rax != s->to_rax, marked = s->to_eflags >> 32 != 0;
	if (resume != (int32_t)resume || rsp != (int16_t)rsp || s->eflags >> 32 || s->trip || s->word || (rax && s->other))
		return 0;
	k->rip = s->rip;
	k->to_rip = s->to_rip;
	k->to_rsp = s->to_rsp;
	k->was = rax ? s->rax : s->was;
	k->to_was = rax ? s->to_rax : s->to_was;
	k->eflags = (uint32_t)s->eflags;
	k->to_eflags = (uint32_t)s->to_eflags;
	k->resume = (int32_t)resume;
	k->rsp = (int16_t)rsp;
	k->other = (uint8_t)s->other;
	k->flags = (uint8_t)((rax ? RAX_DIFFERS : 0) | (s->go ? IS_GO : 0) | (marked ? IS_MARKED : 0));
	return 1;
}

static struct dp_shown shown_by(const struct kept *k, const uint64_t *g)
{
	struct dp_shown s = {.rip = k->rip, .to_rip = k->to_rip, .to_rsp = k->to_rsp};
	s.rsp = k->to_rsp + (uint64_t)(int64_t)k->rsp;
	s.resume = k->rip + (uint64_t)(int64_t)k->resume;
	s.go = (k->flags & IS_GO) != 0;
	s.eflags = k->eflags;
	s.to_eflags = k->to_eflags | (k->flags & IS_MARKED ? dp_counted_mark(s.to_rip, s.to_rsp) : 0);
	s.rax = s.to_rax = g[DP_REG_RAX];
	if (k->flags & RAX_DIFFERS) {
		s.rax = k->was;
		s.to_rax = k->to_was;
	}
	s.other = k->other;
	s.was = k->was;
	s.to_was = k->to_was;
	return s;
}

int dp_keep_arrival(uint64_t *context, int how, const struct dp_shown *s)
{
	struct kept *k = kept_in(context);
	if (!dp_kept_mark || (how == DP_SHOWN && dp_handler_of(s->rip, (const uint64_t *)s->rsp)))
		return how;
	int taken = dp_is_taken(context[-1]); /* in front of the question whether it was given back since */
	if (__atomic_load_n(&dp_kept_no_more, __ATOMIC_ACQUIRE))
		return DP_PLAIN;
	if (!taken)
		return how;
	k->mark = 0;
	if (how != DP_SHOWN)
		k->rip = context[DP_UC_RIP / 8];
	else if (!keep(k, s))
		return how;
	k->mark = mark_of(context, how == DP_SHOWN);
	return DP_PLAIN;
}

enum dp_kept dp_keeps(uint64_t *context, struct dp_shown *s)
{
	struct kept *k = kept_in(context);
	const uint64_t *g = context + DP_UC_GREGS / 8;
	uint64_t mark = k->mark;
	k->mark = 0;
	if (mark == mark_of(context, 1)) {
		*s = shown_by(k, g);
		return DP_KEPT_SHOWN;
	}
	int same = mark == mark_of(context, 0) && k->rip == g[DP_REG_RIP] && g[DP_REG_EFLAGS] >> 32 == 0;
	return same ? DP_KEPT_SAME : DP_KEPT_OTHER;
}
