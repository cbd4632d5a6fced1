/* Code that notes the pages that an instruction touches. A handler that strikes in it sees the
 * instruction, with its registers and flags. When it returns the thread goes on where it was: what
 * is on the stack lies above the handler's. Who goes on elsewhere begins at its beginning. */
#define _GNU_SOURCE
#include <signal.h>

#include "base/stub.h"
#include "signals/flags.h"
#include "signals/touches.h"

/* Which of the registers it is that the code has for itself. */
static uint64_t pushed(const uint8_t *push)
{
	enum { PUSH_RCX = 0x51, PUSH_RDX = 0x52 };
	return *push == PUSH_RCX ? DP_REG_RCX : *push == PUSH_RDX ? DP_REG_RDX : DP_REG_RSI;
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

void dp_show_touch(const struct dp_known *c, const struct dp_origin *o, uint64_t pos, uint64_t *g, struct dp_shown *s)
{
	uint64_t start = c->at + o->at, left = dp_run_of(c, o).body - pos;
	uint64_t most = o->flags & DP_KEEPS_FLAGS ? 2 : 1;
	s->resume = start;
	if (pos >= DP_TOUCH_PUSH) {
		uint64_t words = least(least(pos - DP_TOUCH_PUSH, left - DP_TOUCH_LEA), most);
		const uint64_t *top = (const uint64_t *)g[DP_REG_RSP] + words;
		if (words == 2 && pos >= DP_TOUCH_SAVED_FLAGS && left >= DP_TOUCH_SAHF)
			dp_flags_of_rax(g, left > DP_TOUCH_SAHF);
		if (words >= 1) {
			s->other = pushed((const uint8_t *)start + DP_TOUCH_PUSH);
			s->was = g[s->other];
			g[s->other] = top[-1];
		}
		if (words >= 2)
			g[DP_REG_RAX] = top[-2];
		g[DP_REG_RSP] = (uint64_t)top + DP_RED_ZONE;
	}
	s->low = g[DP_REG_RIP] = c->at + (int64_t)o->from;
}
