/* Code that notes the pages that an instruction touches. A handler that strikes in it sees the
 * instruction, with its registers and flags. When it returns the thread goes on where it was: what
 * is on the stack lies above the handler's, and what is in the row, where code that it ran may have
 * saved something else by then, is put back. Who goes on elsewhere begins at its beginning. */
#define _GNU_SOURCE
#include <signal.h>

#include "base/state.h"
#include "base/stub.h"
#include "signals/flags.h"
#include "signals/touches.h"
#include "stubs/redirect.h"

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Of the stack. */
static void show_pushed(const uint8_t *code, uint64_t pos, uint64_t left, int keeps_flags, uint64_t *g, struct dp_shown *s)
{
	enum { PUSH = 0x50 };
	uint64_t words = least(least(pos - DP_TOUCH_PUSH, left - DP_TOUCH_LEA), keeps_flags ? 2 : 1);
	const uint64_t *top = (const uint64_t *)g[DP_REG_RSP] + words;
	if (words == 2 && pos >= DP_TOUCH_SAVED_FLAGS && left >= DP_TOUCH_SAHF)
		dp_flags_of_rax(g, left > DP_TOUCH_SAHF);
	if (words >= 1) {
		uint64_t place = dp_place_of(code[DP_TOUCH_PUSH] - PUSH);
		s->other = place + 1;
		s->was = g[place];
		g[place] = top[-1];
	}
	if (words >= 2)
		g[DP_REG_RAX] = top[-2];
	g[DP_REG_RSP] = (uint64_t)top + DP_RED_ZONE;
}

/* Of the row. Restore is the last instruction, which has the register, and the word. */
static void show_saved(const uint8_t *restore, uint64_t *g, struct dp_shown *s)
{
	enum { REX_R = 4 };
	uint64_t word = *(const uint32_t *)(restore + DP_TOUCH_WORD);
	if (dp_is_off() || dp_stopped())
		return; /* there may be no row any more; nobody needs what the register has */
	uint64_t place = dp_place_of((restore[DP_TOUCH_MODRM] >> 3 & 7U) | (restore[DP_TOUCH_REX] & REX_R) << 1);
	s->other = place + 1;
	s->was = g[place];
	s->word = word;
	__asm__ volatile("movq %%gs:(%1), %0" : "=r"(g[place]) : "r"(word));
}

void dp_show_touch(const struct dp_known *c, const struct dp_origin *o, uint64_t pos, uint64_t *g, struct dp_shown *s)
{
	uint64_t start = c->at + o->at, body = dp_run_of(c, o).body;
	const uint8_t *code = (const uint8_t *)start, *restore = code + body - DP_TOUCH_RESTORE;
	s->resume = start;
	if (*restore == DP_TOUCH_GS) {
		if (pos >= DP_TOUCH_RESTORE) /* behind the first, which is as long */
			show_saved(restore, g, s);
	} else if (pos >= DP_TOUCH_PUSH)
		show_pushed(code, pos, body - pos, o->flags & DP_KEEPS_FLAGS, g, s);
	s->low = g[DP_REG_RIP] = c->at + (int64_t)o->from;
}

/* How far from its end what is in front of the instruction goes on when an access has been
 * recorded. */
static uint64_t back_of(const struct dp_known *c, const struct dp_origin *o)
{
	uint64_t body = dp_run_of(c, o).body;
	const uint8_t *code = (const uint8_t *)(c->at + o->at);
	if (code[body - DP_TOUCH_RESTORE] == DP_TOUCH_GS)
		return body - DP_RECORD_BACK_ROW;
	return body - (o->flags & DP_KEEPS_FLAGS ? DP_RECORD_BACK_FLAGS : DP_RECORD_BACK_STACK);
}

/* Stack and registers are those where it goes on, but for what a record lowers. Who goes on
 * elsewhere does not record it a second time. */
void dp_show_cold_touch(const struct dp_known *c, const struct dp_origin *o, uint64_t pos, uint64_t *g, struct dp_shown *s)
{
	uint64_t start = c->at + o->at, left = dp_run_of(c, o).lengths[0][1] - pos, front = dp_jump_target(start);
	const struct dp_origin *main = dp_origin_at(c, front - c->at);
	if (*(const uint8_t *)start == DP_OP_CALL) { /* no record */
		dp_show_touch(c, main, back_of(c, main), g, s);
		return;
	}
	if (left > DP_RECORD_JUMP && left <= DP_RECORD_LOWERED)
		g[DP_REG_RSP] += DP_RECORD_ROOM;
	dp_show_touch(c, main, back_of(c, main), g, s);
	if (left <= DP_RECORD_CALLED)
		s->resume = front + dp_run_of(c, main).body;
}

void dp_save_again(uint64_t word, uint64_t value)
{
	if (!dp_is_off() && !dp_stopped())
		__asm__ volatile("movq %1, %%gs:(%0)" : : "r"(word), "r"(value) : "memory");
}
