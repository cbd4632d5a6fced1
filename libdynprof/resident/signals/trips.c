/* Code that starts, counts or ends an execution of a loop. A handler that strikes in it
 * sees the instruction that it stands in front of.
 *
 *  1. When it returns and the context is still that, the thread begins the part again: the
 *     handler, or who has run while it waited, may have changed the execution. Not one that is
 *     stepped, which would come to no end.
 *  2. In the cold part it goes on where it was: what it has read of the row is looked at again
 *     there, or changed by one instruction, and what it has ended shall be counted.
 *  3. Else nobody knows which part will run, and whether again: the row's execution of the
 *     loop is not counted any more. */
#define _GNU_SOURCE
#include <signal.h>

#include "base/state.h"
#include "base/stub.h"
#include "signals/trips.h"
#include "stubs/redirect.h"

enum { TRAP_FLAG = 1 << 8 };

/* Words that are on the stack at an offset of the cold part, which may lack the red zone. */
static uint64_t saved_at(uint64_t pos, uint64_t left)
{
	if (pos < DP_TRIP_COLD_RCX || left <= DP_TRIP_COLD_POP_RAX)
		return pos >= DP_TRIP_COLD_RAX && left > DP_TRIP_COLD_RESTORE;
	return 2;
}

static void restore(uint64_t *g, uint64_t words)
{
	const uint64_t *top = (const uint64_t *)g[DP_REG_RSP] + words;
	if (words >= 1)
		g[DP_REG_RAX] = top[-1];
	if (words >= 2)
		g[DP_REG_RCX] = top[-2];
	g[DP_REG_RSP] = (uint64_t)top + DP_RED_ZONE;
}

/* Where in the row its code, which begins with an instruction that has it, keeps the stack
 * pointer of the execution. */
static uint64_t word_of(uint64_t code) { return *(const uint32_t *)(code + DP_TRIP_WORD); }

void dp_show_trip(const struct dp_known *c, const struct dp_origin *o, uint64_t pos, uint64_t *g, struct dp_shown *s)
{
	struct dp_run r = dp_run_of(c, o);
	uint64_t start = c->at + o->at;
	s->resume = g[DP_REG_RIP];
	s->other = DP_REG_RCX + 1;
	s->was = g[DP_REG_RCX];
	if (r.body && !(g[DP_REG_EFLAGS] & TRAP_FLAG)) {
		s->rip = s->resume = start;
	} else if (!r.body) {
		uint64_t left = r.lengths[0][1] - pos;
		start = dp_jump_target(start);
		if (pos >= DP_TRIP_COLD_SAVE && left > DP_TRIP_COLD_JUMP) {
			restore(g, saved_at(pos, left));
			s->resume = start;
		}
	}
	s->trip = word_of(start);
	s->low = g[DP_REG_RIP] = c->at + (int64_t)o->from;
}

void dp_forget_trip(uint64_t word)
{
	if (!dp_is_off() && !dp_stopped())
		__asm__ volatile("movq $0, %%gs:(%0)" : : "r"(word) : "memory");
}
