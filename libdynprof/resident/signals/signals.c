/* A program's signal handlers may look at the instruction that they interrupt:
 * they unwind the stack from it, throw, turn a fault at a known address into an
 * error (Java, Go), go on elsewhere, or save the context and install another's
 * (preemptive user threads). Code of ours must look like the code that it stands
 * for.
 *
 *  1. The system call that installs a handler, a kernel site, gets an entry of
 *     ours in its place (handlers.c). The kernel enters there.
 *  2. If the interrupted code is ours, the context is changed to the state in
 *     which the program's own code would be: in front of the instruction whose
 *     copy was struck, or at the entry if it was the count.
 *  3. When the handler returns, and the context is still that, it is put back. Once
 *     nothing is ours any more, as somebody has detached, it stays the program's.
 *  4. Else it names code of the program, whoever was interrupted, and perhaps a
 *     byte that a patch overwrote, or of a function that runs as a copy: then it
 *     goes on in the copy; at a handler that the kernel has just entered it comes by
 *     our entry. So it is, too, where the interrupted code was not
 *     ours, once handlers switch contexts, or if it was what is left of a function
 *     that runs as a copy: its calls, and its system calls.
 *
 * A thread behind its count and one in front of it both show the entry. Where
 * that is resumed later it must count once: the first is marked, in the upper
 * half of the flags' word, which the kernel ignores and whoever saves the context
 * saves. The mark goes with the address and the stack, so that a context made of
 * a saved one is not taken for it.
 * Only memory is used, no system call: this is as safe as the handler is.
 */
#define _GNU_SOURCE
#include <signal.h>

#include "base/state.h"
#include "base/stub.h"
#include "signals/aimed.h"
#include "signals/entries.h"
#include "signals/flags.h"
#include "signals/kept.h"
#include "signals/notes.h"
#include "signals/signals.h"
#include "signals/touches.h"
#include "signals/trips.h"
#include "stubs/arenas.h"
#include "stubs/keeper.h"
#include "stubs/redirect.h"
#include "stubs/switch.h"

/* ---- showing ---------------------------------------------------------- */

/* The branch that hops to the island at rip; 0 if there is none. */
static uint64_t hop_to(uint64_t rip)
{
	const struct dp_known *c = dp_arena_of_text(rip);
	uint64_t low = 0, high = c ? c->islands_count : 0;
	while (low < high) {
		uint64_t mid = (low + high) / 2;
		if (c->islands[mid].at == rip)
			return *(const uint8_t *)rip == DP_OP_JMP ? c->islands[mid].from : 0;
		if (c->islands[mid].at < rip)
			low = mid + 1;
		else
			high = mid;
	}
	return 0;
}

/* The count of a stub that keeps flags. In front of the inc all is as it was
 * but for what lies on the stack; behind it the flags are in ah and al. */
static void show_keeping_flags(uint64_t *g, uint64_t pos, uint64_t body, struct dp_shown *s)
{
	if (pos < DP_SAVE_SIZE)
		return;
	if (pos < DP_SAVED_RAX || pos >= body - DP_RESTORED_RAX) { /* only the red zone is left */
		g[DP_REG_RSP] += DP_RED_ZONE;
	} else {
		if (pos > DP_SAVED && pos < body - DP_RESTORED_FLAGS)
			dp_flags_of_rax(g, pos < body - DP_RESTORED_OF);
		g[DP_REG_RAX] = *(const uint64_t *)g[DP_REG_RSP];
		g[DP_REG_RSP] += 8 + DP_RED_ZONE;
	}
	s->counted = pos > DP_SAVED;
	if (s->counted)
		s->resume += body;
}

/* As show_keeping_flags, at an offset of a front: its instructions are those of the
 * count, in another order, and jumps. */
static void show_front(uint64_t *g, uint64_t pos, uint64_t body, uint64_t stub, struct dp_shown *s)
{
	uint64_t same = pos;
	if (pos >= DP_FLAGS_ON || (pos >= DP_FLAGS_ARRIVE && pos < DP_FLAGS_LAP))
		same = 0;
	else if (pos >= DP_FLAGS_BACK)
		same = body - (DP_FLAGS_ON - pos);
	else if (pos >= DP_FLAGS_COUNTED)
		same = DP_FLAGS_COUNTED;
	show_keeping_flags(g, same, body, s);
	s->counted = pos >= DP_FLAGS_LAP || (pos >= DP_FLAGS_COUNTED && pos < DP_FLAGS_ARRIVE);
	s->resume = s->counted ? stub - (DP_FRONT_FLAGS - DP_FLAGS_ON) : stub;
}

/* Whether the count has been made, at an offset of a front and a count that keep
 * no flags. */
static int is_behind_inc(uint64_t pos, uint64_t front)
{
	if (pos >= front)
		return pos > front;
	return pos >= DP_PLAIN_LAP || (pos > 0 && pos < DP_PLAIN_ARRIVE);
}

/* Finds the copy that holds the offset pos of the body; *from and *to are
 * advanced to the instruction and its copy. Returns its length, 0 behind the
 * last. */
static const uint8_t *copy_at(const struct dp_run *r, uint64_t pos, uint64_t *from, uint64_t *to)
{
	for (uint32_t i = 0; i < r->count; i++) {
		const uint8_t *n = r->lengths[i];
		if (pos - *to < n[1])
			return n;
		*from += n[0] & DP_ORIGINAL;
		*to += n[1];
	}
	return 0;
}

/* The stub that a part of a whole function's copy is behind. */
static const struct dp_origin *stub_of(const struct dp_origin *o)
{
	while (o->flags & DP_IS_COPY)
		o--;
	return o;
}

/* The jump of an expanded loop, which its position is at. */
static uint64_t loop_target(uint64_t rip)
{
	const uint8_t *jump = (const uint8_t *)rip;
	if (jump[0] == DP_OP_JMP_SHORT)
		return rip + DP_JMP_SHORT_SIZE + (uint64_t)(int64_t)(int8_t)jump[1];
	return dp_jump_target(rip);
}

/* A position in a stub, or in a part of a copy. What the unit's own jumps to its entry
 * count shows the entry, and has no call to count any more. The count of a way is not
 * that of the block that it shows. */
static int show_stub(const struct dp_known *c, const struct dp_origin *o, uint64_t pos, uint64_t *g, struct dp_shown *s)
{
	uint64_t from = c->at + (int64_t)o->from, to = 0, stub = c->at + o->at;
	struct dp_run r = dp_run_of(c, o);
	int again = o->flags & DP_IS_COPY && o->from == stub_of(o)->from;
	s->low = from;
	s->go = o->flags & DP_IS_GO;
	if ((o->flags & DP_IS_TOUCH) == DP_IS_TOUCH) {
		if (pos < r.body) {
			dp_show_touch(c, o, pos, g, s);
			s->counted = again;
			return 1;
		}
		if (o->flags & DP_IS_WAY && !r.body) {
			dp_show_cold_touch(c, o, pos, g, s);
			s->counted = again;
			return 1;
		}
	} else if (o->flags & DP_IS_NOTE && (o->flags & DP_IS_WAY || pos < r.body)) {
		dp_show_note(c, o, pos, g, s);
		s->counted = again;
		return 1;
	} else if (o->flags & DP_IS_TRIP) {
		dp_show_trip(c, o, pos, g, s);
		s->counted = again;
		return 1;
	}
	if (pos < r.body) {
		uint64_t front = dp_front_of(o);
		s->resume = stub + front;
		if (o->flags & DP_KEEPS_FLAGS && pos < front)
			show_front(g, pos, r.body - front, stub + front, s);
		else if (o->flags & DP_KEEPS_FLAGS)
			show_keeping_flags(g, pos - front, r.body - front, s);
		else {
			s->resume = g[DP_REG_RIP];
			s->counted = (uint32_t)is_behind_inc(pos, front);
		}
		s->counted = (s->counted && !(o->flags & DP_IS_WAY)) || again;
		g[DP_REG_RIP] = from;
		dp_show_aimed(c, o, stub + r.body, g, s);
		return 1;
	}
	pos -= r.body;
	const uint8_t *n = copy_at(&r, pos, &from, &to);
	if (n && pos != to && !(n[0] & DP_IS_CALL)) { /* at a jump of an expanded loop: it is as good as done */
		s->rip = g[DP_REG_RIP] = loop_target(g[DP_REG_RIP]);
		if (s->rip < c->at || s->rip >= c->end)
			return 0;
		o = dp_origin_at(c, s->rip - c->at);
		return o ? show_stub(c, o, s->rip - c->at - o->at, g, s) : 0;
	}
	g[DP_REG_RIP] = from;
	if (!n)
		return 0; /* at the jump back: it is as good as done */
	s->resume = stub + r.body + to;
	dp_show_aimed(c, o, s->resume, g, s);
	s->counted = (r.body || again) && to == 0;
	if (n[0] & DP_IS_CALL && (pos - to == DP_CALL_OVER || pos - to > DP_CALL_POPPED))
		g[DP_REG_RSP] += 8;
	return 1;
}

/* A position in a cold block, or in the arena's jump to the slow path. */
static int show_cold(const struct dp_known *c, uint64_t pos, uint64_t *g, struct dp_shown *s)
{
	uint64_t rsp = g[DP_REG_RSP], block = g[DP_REG_RIP] - pos;
	if (pos >= DP_COLD_JUMP)
		return 0;
	if (pos >= DP_COLD_PUSHED && pos < DP_COLD_DONE)
		g[DP_REG_RSP] = rsp + DP_RED_ZONE + 8;
	else if (pos > 0 && pos < DP_COLD_PUSHED)
		g[DP_REG_RSP] = rsp + DP_RED_ZONE;
	s->resume = pos < DP_COLD_CALLED ? block : block + DP_COLD_DONE;
	uint64_t back = block + DP_COLD_JUMP + (int64_t) * (const int32_t *)(block + DP_COLD_JUMP - 4);
	const struct dp_origin *o = back >= c->at && back < c->end ? dp_origin_at(c, back - c->at) : 0;
	if (!o) {
		g[DP_REG_RIP] = s->resume;
		return 0;
	}
	g[DP_REG_RIP] = s->low = c->at + (int64_t)o->from;
	uint64_t stub = c->at + o->at, front = dp_front_of(o), body = dp_run_of(c, o).body;
	s->counted = 1;
	if (o->flags & DP_KEEPS_FLAGS && front) {
		show_front(g, back - stub, body - front, stub + front, s);
	} else if (o->flags & DP_KEEPS_FLAGS) {
		s->resume = stub;
		show_keeping_flags(g, back - stub, body, s);
	}
	return 1;
}

/* A position in a keep block: at the entry, on whose stack there is more by now. The
 * word that it pushes first is one of its stub's pointers, and those have the number
 * of the cold block. */
static int show_keep(const struct dp_known *c, uint64_t pos, uint64_t *g, struct dp_shown *s)
{
	uint64_t block = g[DP_REG_RIP] - pos, code = block + DP_KEEP_CODE_PUSHED + (int64_t) * (const int32_t *)(block + DP_KEEP_CODE_PUSHED - 4);
	uint64_t jump = c->cold + (code - c->end) / sizeof(struct dp_pointers) * DP_COLD_SIZE + DP_COLD_JUMP;
	uint64_t back = jump + (int64_t) * (const int32_t *)(jump - 4);
	const struct dp_origin *o = back >= c->at && back < c->end ? dp_origin_at(c, back - c->at) : 0;
	if (!o)
		return 0;
	g[DP_REG_RSP] += pos >= DP_KEEP_PUSHED ? 16 : pos >= DP_KEEP_CODE_PUSHED ? 8 : 0;
	g[DP_REG_RIP] = s->low = c->at + (int64_t)o->from;
	s->resume = block;
	s->counted = 1;
	return 1;
}

static int show(const struct dp_known *c, uint64_t *g, int looks_only, struct dp_shown *s)
{
	uint64_t at = g[DP_REG_RIP] - c->at;
	if (at >= DP_COMMON_HOOK && at < DP_COMMON_RECORD + DP_COMMON_SIZE) {
		/* At a jump out of the arena: it is as good as done. */
		g[DP_REG_RIP] = *(const uint64_t *)(c->at + (at & -(uint64_t)DP_COMMON_SIZE) + DP_COMMON_TARGET);
		return 0;
	}
	if (c->at + at >= c->keeps)
		return show_keep(c, (c->at + at - c->keeps) % DP_KEEP_SIZE, g, s);
	if (at - DP_COMMON_SLOW < DP_COMMON_SIZE && *(const uint64_t *)g[DP_REG_RSP] - c->cold < c->end - c->cold) {
		/* In the jump to the slow path: as if the cold block's call were still to come. */
		g[DP_REG_RIP] = *(const uint64_t *)g[DP_REG_RSP] - (DP_COLD_CALLED - DP_COLD_PUSHED);
		g[DP_REG_RSP] += 8;
		at = g[DP_REG_RIP] - c->at;
	}
	if (c->at + at >= c->cold)
		return show_cold(c, (c->at + at - c->cold) % DP_COLD_SIZE, g, s);
	const struct dp_origin *o = dp_origin_at(c, at);
	/* The Go runtime knows its code: what it may not preempt at an entry it
	 * may not preempt in a stub, but only there does it not try. Its profiler
	 * only looks, as for a fault. */
	if (!o || (o->flags & DP_IS_GO && !looks_only))
		return 0;
	return show_stub(c, o, at - o->at, g, s);
}

static int is_fault(int sig, const siginfo_t *info)
{
	return info->si_code > 0 && (sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGTRAP);
}

/* A step of a program that steps through itself: it goes on from there. */
static int is_step(int sig, const siginfo_t *info) { return sig == SIGTRAP && info->si_code == TRAP_TRACE; }

/* A position on an island: as if the branch to it were still to come. A thread
 * that goes on does so from the island: stepped, it would come to no end. What
 * the handler puts in between may return to the branch. */
static int show_island(uint64_t *g, struct dp_shown *s)
{
	uint64_t from = hop_to(g[DP_REG_RIP]);
	if (!from)
		return 0;
	s->resume = g[DP_REG_RIP];
	s->low = g[DP_REG_RIP] = from;
	s->go = 1;
	return 1;
}

/* At an entry of ours, as where two signals come at once: at the program's handler. */
static int show_entered(uint64_t *g, struct dp_shown *s)
{
	uint64_t handler = dp_is_entered(g) ? dp_handler_of(g[DP_REG_RIP], (const uint64_t *)g[DP_REG_RSP]) : 0;
	if (!handler)
		return 0;
	s->resume = g[DP_REG_RIP];
	s->low = g[DP_REG_RIP] = handler;
	s->go = 1;
	return 1;
}

static uint64_t mark_of(const uint64_t *g) { return dp_counted_mark(g[DP_REG_RIP], g[DP_REG_RSP]); }

static const uint64_t MARK = ~0ULL << 32;

/* Handlers switch contexts in this process. A handler that strikes outside of our
 * code is entered as by the kernel, and returns by the program's restorer, as its
 * backtraces show, until that is known: no context names a copied byte before one
 * was struck in a copy. */
static uint32_t switches;

static void note_switches(void) { __atomic_store_n(&switches, 1, __ATOMIC_RELEASE); }

/* It is known when a handler that was shown something leaves another stack; and,
 * as another kernel thread may be in a handler by then, which goes on there, when
 * signals find threads on different stacks. */
static void look_at_stack(uint64_t rsp)
{
	enum { NEAR = 64 << 10 };
	static uint64_t last;
	uint64_t before = __atomic_exchange_n(&last, rsp, __ATOMIC_RELAXED);
	if (before && rsp - before + NEAR > 2 * NEAR)
		note_switches();
}

/* Whether the signal's information has the interrupted address, too. */
static int names_address(int sig, const siginfo_t *info, int fault)
{
	return (fault && (sig == SIGILL || sig == SIGFPE || sig == SIGTRAP)) || (sig == SIGSYS && info->si_code > 0);
}

_Static_assert(offsetof(siginfo_t, si_call_addr) == offsetof(siginfo_t, si_addr), "siginfo_t");

/* How many records there are whose text starts at or before rip, in the order of text. */
static uint64_t origins_up_to(const struct dp_known *c, uint64_t rip)
{
	uint64_t low = 0, high = c->origins_count;
	while (low < high) {
		uint64_t mid = (low + high) / 2;
		if (c->at + (int64_t)c->origins[c->by_text[mid]].from <= rip)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Whether a thread stands where a function was that runs as a copy. */
static int is_home(uint64_t rip)
{
	if (dp_is_off() || !dp.table->blocks.offset)
		return 0;
	const struct dp_known *c = dp_arena_of_text(rip);
	uint64_t n = c ? origins_up_to(c, rip) : 0;
	const struct dp_origin *o = n ? &c->origins[c->by_text[n - 1]] : 0;
	return o && (o->flags & DP_IS_COPY || (o + 1 < c->origins + c->origins_count && o[1].flags & DP_IS_COPY));
}

/* Whether the switch behind a stub's count leads past the copy that counts blocks. */
static int is_plain(const struct dp_known *c, const struct dp_origin *stub)
{
	return dp.table->flags & DP_FLAG_SWITCHED && dp_is_plain((const uint8_t *)(c->at + stub->at + dp_run_of(c, stub).body), (const uint8_t *)c->cold);
}

/* The record of the copy of the instruction at rip, which is at *to; 0 if there is none. That of
 * one behind a lock prefix, which code may jump over, is behind the copy's prefix. Of
 * those that stand for the same text the last one with instructions has it: a stub in front
 * of a whole function's copy may have none. Parts of a copy without counters come in front of
 * the others. */
static const struct dp_origin *copied(const struct dp_known *c, uint64_t rip, uint64_t *to)
{
	uint64_t n = origins_up_to(c, rip);
	int64_t text = n ? c->origins[c->by_text[n - 1]].from : 0;
	for (; n > 0 && c->origins[c->by_text[n - 1]].from == text; n--) {
		const struct dp_origin *o = &c->origins[c->by_text[n - 1]];
		struct dp_run r = dp_run_of(c, o);
		uint64_t from = c->at + (uint64_t)text;
		uint32_t i = 0;
		*to = c->at + o->at + r.body;
		for (; i < r.count && from < rip; i++) {
			from += r.lengths[i][0] & DP_ORIGINAL;
			*to += r.lengths[i][1];
			if (from == rip + (r.lengths[i][0] & DP_ORIGINAL) - 1 && *(const uint8_t *)(*to - r.lengths[i][1]) == DP_OP_LOCK) {
				*to -= r.lengths[i][1] - 1;
				from = rip;
				break;
			}
		}
		int counts = (o->flags & (DP_IS_COPY | DP_IS_WAY)) == DP_IS_COPY;
		if (from == rip && i < r.count && !(counts && is_plain(c, stub_of(o))))
			return o;
	}
	return 0;
}

/* Whether a copy is a jump to what it stands for, which runs at home. */
static int leads_home(uint64_t copy, uint64_t rip)
{
	uint8_t op = *(const uint8_t *)copy;
	return (op == DP_OP_JMP || op == DP_OP_JMP_SHORT) && loop_target(copy) == rip;
}

/* Whether a thread there, at home, has come by the count of the block that begins with it: its
 * copy counts, and leads back to the call, or whatever stays there. */
static int is_counted_home(uint64_t rip)
{
	uint64_t to;
	const struct dp_known *c = dp_arena_of_text(rip);
	const struct dp_origin *o = c ? copied(c, rip, &to) : 0;
	return o && o->flags & DP_IS_COPY && rip == c->at + (uint64_t)(int64_t)o->from && leads_home(to, rip);
}

/* Called in front of a handler. DP_SHOWN: dp_depart shall be behind it. A fault is
 * not marked: mostly the thread does not come back to it. */
static int arrive(int sig, siginfo_t *info, uint64_t *context, struct dp_shown *s)
{
	uint64_t *g = context + DP_UC_GREGS / 8;
	const struct dp_known *c = dp_arena_at(g[DP_REG_RIP]);
	int fault = is_fault(sig, info), gone = fault && (sig == SIGSEGV || sig == SIGBUS); /* perhaps the text itself */
	s->rip = g[DP_REG_RIP];
	s->rsp = g[DP_REG_RSP];
	s->rax = g[DP_REG_RAX];
	s->eflags = g[DP_REG_EFLAGS];
	s->go = s->counted = 0;
	s->trip = s->other = s->word = 0;
	if (!fault && !switches)
		look_at_stack(s->rsp);
	uint64_t at = s->rip;
	int shown = c ? show(c, g, fault || sig == SIGPROF, s) : !gone && (show_island(g, s) || show_entered(g, s));
	if (names_address(sig, info, fault) && (uint64_t)info->si_addr == at)
		info->si_addr = (void *)g[DP_REG_RIP];
	if (!shown) {
		int home = is_home(at);
		if (home && is_counted_home(at))
			g[DP_REG_EFLAGS] |= mark_of(g);
		return __atomic_load_n(&switches, __ATOMIC_ACQUIRE) || home ? DP_WATCHED : DP_PLAIN;
	}
	if (s->counted && (!fault || is_step(sig, info)))
		g[DP_REG_EFLAGS] |= mark_of(g);
	s->to_rip = g[DP_REG_RIP];
	s->to_rsp = g[DP_REG_RSP];
	s->to_rax = g[DP_REG_RAX];
	s->to_was = s->other ? g[s->other - 1] : 0;
	s->to_eflags = g[DP_REG_EFLAGS];
	return DP_SHOWN;
}

int dp_arrive(int sig, siginfo_t *info, uint64_t *context, struct dp_shown *s) HIDDEN;
int dp_arrive(int sig, siginfo_t *info, uint64_t *context, struct dp_shown *s)
{
	dp_reads();
	int how = dp_keep_arrival(context, arrive(sig, info, context, s), s);
	dp_has_read();
	return how;
}

/* ---- going on --------------------------------------------------------- */

/* Whether a patch leads from text to a stub: not if the object was closed, or the
 * program has written over it. */
static int leads_to(uint64_t text, uint64_t stub)
{
	const uint8_t *at = (const uint8_t *)text;
	if (at[0] == DP_OP_JMP_SHORT)
		at += DP_JMP_SHORT_SIZE + (int8_t)at[1]; /* an island */
	return at[0] == DP_OP_INT3 || (at[0] == DP_OP_JMP && dp_jump_target((uint64_t)at) == stub);
}

/* Where a stub goes on behind its count. The check of the threshold, if it is
 * clear of saved flags, is made again. */
static uint64_t behind_count(const struct dp_known *c, const struct dp_origin *o)
{
	static const uint8_t lock_inc[] = DP_LOCK_INC;
	const uint8_t *stub = (const uint8_t *)(c->at + o->at + dp_front_of(o));
	if (o->flags & DP_HAS_FRONT)
		return (uint64_t)stub - DP_FRONT_ON;
	if ((o->flags & DP_IS_TOUCH) == DP_IS_TOUCH)
		return (uint64_t)stub; /* a second time does no harm */
	if (o->flags & (DP_KEEPS_FLAGS | DP_IS_NOTE))
		return (uint64_t)stub + dp_run_of(c, o).body;
	int shared = same_bytes(stub + DP_JMP_SHORT_SIZE, lock_inc + DP_JMP_SHORT_SIZE, sizeof lock_inc - DP_JMP_SHORT_SIZE);
	return (uint64_t)stub + (shared ? DP_LOCK_INC_SIZE : DP_INC_SIZE);
}

/* The context names code of the program: bytes that a patch overwrote go on in
 * their copy. At the start of a window stands the patch itself, and counts, but
 * for threads that have been counted. */
static void go_on(uint64_t *g)
{
	uint64_t rip = g[DP_REG_RIP], marked = (g[DP_REG_EFLAGS] & MARK) == mark_of(g), to;
	const struct dp_known *c = dp_arena_of_text(rip);
	const struct dp_origin *o = c ? copied(c, rip, &to) : 0;
	if (g[DP_REG_EFLAGS] & MARK)
		g[DP_REG_EFLAGS] &= ~MARK;
	uint64_t entry = !dp_is_off() && dp_is_entered(g) ? dp_entry_of(rip) : 0;
	if (entry)
		g[DP_REG_RIP] = entry;
	if (entry || !o)
		return;
	const struct dp_origin *first = stub_of(o);
	if (!dp_run_of(c, o).body && o->from == first->from)
		o = first; /* the function's count is in front of it */
	int counted = marked && dp_run_of(c, o).body;
	uint64_t window = c->at + (uint64_t)(int64_t)first->from;
	/* Text is read only where it must be: if the object was closed it may be gone. */
	if ((rip == window && !counted) || !leads_to(window, c->at + first->at + dp_front_of(first)))
		return;
	int begins = rip == c->at + (uint64_t)(int64_t)o->from;
	if ((!begins || counted || !dp_run_of(c, o).body) && leads_home(to, rip))
		return; /* it runs there: a thread that is struck at each instruction would not get behind its copy */
	if (!begins)
		g[DP_REG_RIP] = to;
	else
		g[DP_REG_RIP] = counted ? behind_count(c, o) : c->at + o->at;
}

/* Called behind a handler that has changed where the thread was, which was not in
 * code of ours, and before the program resumes a context by itself. */
void dp_moved(uint64_t *context)
{
	dp_reads();
	go_on(context + DP_UC_GREGS / 8);
	dp_has_read();
}

void dp_show(uint64_t *context)
{
	struct dp_shown s = {0};
	uint64_t *g = context + DP_UC_GREGS / 8;
	dp_reads();
	const struct dp_known *c = dp_arena_at(g[DP_REG_RIP]);
	if (c)
		show(c, g, 1, &s);
	else
		show_island(g, &s);
	dp_has_read();
}

static void put_back(uint64_t *g, const struct dp_shown *s)
{
	g[DP_REG_RIP] = s->rip;
	g[DP_REG_RSP] = s->rsp;
	if (s->word)
		dp_save_again(s->word, g[s->other - 1]);
	if (g[DP_REG_RAX] == s->to_rax)
		g[DP_REG_RAX] = s->rax;
	if (s->other && (s->word || g[s->other - 1] == s->to_was))
		g[s->other - 1] = s->was;
	if (g[DP_REG_EFLAGS] == s->to_eflags)
		g[DP_REG_EFLAGS] = s->eflags;
}

/* A call that the handler put in between returns to where the thread was. */
static void lead_back(const uint64_t *g, const struct dp_shown *s)
{
	enum { NEAR = 256 }; /* what it may push, red zone and all */
	if (s->go || s->to_rsp - g[DP_REG_RSP] > NEAR)
		return;
	for (uint64_t at = g[DP_REG_RSP]; at + 8 <= s->to_rsp; at += 8)
		if (*(uint64_t *)at == s->to_rip) {
			*(uint64_t *)at = s->resume;
			return;
		}
}

/* Called behind a handler that dp_arrive changed the context for. */
void dp_depart(uint64_t *context, const struct dp_shown *s) HIDDEN;
void dp_depart(uint64_t *context, const struct dp_shown *s)
{
	uint64_t *g = context + DP_UC_GREGS / 8;
	int same = g[DP_REG_RIP] == s->to_rip && g[DP_REG_RSP] == s->to_rsp;
	/* In a process that was left meanwhile it goes on in the program's code, but for text that could
	 * not be given back. What has interrupted a handler that is about to begin has yet to be shown. */
	int left = dp_withdrawn && !(same && dp_handler_of(s->rip, (const uint64_t *)s->rsp));
	if (same && !left) {
		put_back(g, s);
		return;
	}
	if (s->trip)
		dp_forget_trip(s->trip);
	if (left) {
		dp_moved(context);
		return;
	}
	if (g[DP_REG_RSP] != s->to_rsp)
		note_switches();
	lead_back(g, s);
	if (g[DP_REG_RIP] == s->to_rip && ((g[DP_REG_EFLAGS] ^ s->to_eflags) & MARK) == 0)
		g[DP_REG_RIP] = s->resume;
	else
		dp_moved(context);
}

/* Called behind a handler that has returned by a restorer of the program's (kept.c). */
void dp_returns(uint64_t *context) HIDDEN;
void dp_returns(uint64_t *context)
{
	struct dp_shown s;
	enum dp_kept kept = dp_keeps(context, &s);
	if (kept == DP_KEPT_SHOWN)
		dp_depart(context, &s);
	else if (kept == DP_KEPT_OTHER)
		dp_moved(context);
}
