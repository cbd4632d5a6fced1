/* A note in front of a call by a pointer looks for the callee in the thread's row, and
 * counts. A handler that strikes in it sees the call, and registers and stack as they are
 * there. When it returns
 *
 *  1. a thread in the part in front of the call goes on there: what it compares with is
 *     never changed once it is set;
 *  2. one in the cold part, which takes a word of the row that it found free, begins again,
 *     as the handler may have come to the same place and taken that word; unless it has
 *     counted already: then it goes on behind the note;
 *  3. so does one that is stepped, which would come to no end: its callee is not told.
 */
#define _GNU_SOURCE
#include <signal.h>

#include "base/stub.h"
#include "signals/notes.h"
#include "stubs/redirect.h"

enum { TRAP_FLAG = 1 << 8 };

/* Takes words of saved registers off the stack, and the red zone. */
static void restore(uint64_t *g, uint64_t words)
{
	const uint64_t *top = (const uint64_t *)g[DP_REG_RSP] + words;
	if (words >= 1)
		g[DP_REG_RAX] = top[-1];
	if (words >= 2)
		g[DP_REG_RCX] = top[-2];
	if (words >= 3)
		g[DP_REG_RDX] = top[-3];
	g[DP_REG_RSP] = (uint64_t)top + DP_RED_ZONE;
}

/* Left is to the end. */
static void show_hot(uint64_t pos, uint64_t left, uint64_t start, uint64_t *g, struct dp_shown *s)
{
	if (pos >= DP_NOTE_SAVED && left >= DP_NOTE_RESTORED)
		restore(g, 1);
	else if (pos >= DP_SAVE_SIZE)
		restore(g, 0);
	s->resume = pos >= DP_NOTE_SAVED && left <= DP_NOTE_RESTORED ? start + pos + left : start;
}

/* Words that are on the stack, at an offset in a cold part for a register. */
static uint64_t saved_at(uint64_t pos, uint64_t left)
{
	if (pos < DP_NOTE_COLD_RCX || left <= DP_NOTE_COLD_POP_RAX)
		return pos >= DP_NOTE_COLD_RAX && left > DP_NOTE_COLD_RESTORE;
	return pos < DP_NOTE_COLD_RDX || left == DP_NOTE_COLD_POP_RCX ? 2 : 3;
}

static void show_cold(uint64_t pos, uint64_t left, uint64_t start, int memory, uint64_t *g, struct dp_shown *s)
{
	uint64_t end = start + pos + left;
	int done = left <= DP_NOTE_COLD_POP_RDX || left == DP_NOTE_COLD_COUNTED || g[DP_REG_EFLAGS] & TRAP_FLAG;
	if (memory)
		pos += DP_NOTE_COLD_RAX - DP_NOTE_COLD;
	if (pos >= DP_NOTE_COLD_SAVE && left > DP_NOTE_COLD_JUMP)
		restore(g, saved_at(pos, left));
	s->rip = s->resume = dp_jump_target(done ? end - DP_JMP_SIZE : start);
	s->rsp = g[DP_REG_RSP];
	s->rax = g[DP_REG_RAX];
}

void dp_show_note(const struct dp_known *c, const struct dp_origin *o, uint64_t pos, uint64_t *g, struct dp_shown *s)
{
	struct dp_run r = dp_run_of(c, o);
	uint64_t start = c->at + o->at;
	int memory = o->flags & DP_KEEPS_FLAGS;
	if (o->flags & DP_IS_WAY)
		show_cold(pos, r.lengths[0][1] - pos, start, memory, g, s);
	else if (memory)
		show_hot(pos, r.body - pos, start, g, s);
	else
		s->resume = start;
	s->low = g[DP_REG_RIP] = c->at + (int64_t)o->from;
}
