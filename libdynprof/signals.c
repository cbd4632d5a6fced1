/* A program's signal handlers may look at the instruction that they interrupt:
 * they unwind the stack from it, throw, turn a fault at a known address into an
 * error (Java, Go), or go on elsewhere. Code of ours must look like the code
 * that it stands for.
 *
 *  1. The system call that installs a handler, a kernel site, gets the address
 *     of one of dp_handler_entries in its place; one that asks gets the
 *     program's back. An entry and its handler belong together for good, so
 *     that no two threads can mix up their handlers.
 *  2. The kernel enters there. If the interrupted code is not ours, that is all:
 *     a jump to the handler.
 *  3. Else the context is changed to the state in which the program's own code
 *     would be: in front of the instruction whose copy was struck, or at the
 *     entry if it was the count.
 *  4. When the handler returns and has not moved on, the context is put back.
 *     If it has, to a byte that a patch overwrote, it goes on in the copy.
 * Only memory is used, no system call: this is as safe as the handler is.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>

#include "filters.h"
#include "gs.h"
#include "session.h"
#include "signals.h"
#include "state.h"
#include "traps.h"
#include "translator.h"

/* A record of stubgen/origins.go. */
struct origin {
	uint32_t at;	  /* in the arena */
	int32_t from;	  /* the original, from the arena's start */
	uint32_t lengths; /* index */
	uint16_t count;	  /* instructions */
	uint8_t body;	  /* bytes of count */
	uint8_t flags;
};
_Static_assert(sizeof(struct origin) == 16, "origin");

enum { KEEPS_FLAGS = 1, IS_GO = 2, HAS_FRONT = 4, IS_CALL = 0x80 };

/* An arena whose code is known. */
struct code {
	uint64_t low, high, cold;
	const struct origin *origins;
	const uint8_t (*lengths)[2]; /* of an instruction: original, copy */
	uint64_t count;
};

/* A jump in original text, and the branch that hops to it. */
struct island {
	uint64_t at, from;
};

struct islands {
	const struct island *list;
	uint64_t count;
};

enum { CODES = 1024 };
static struct islands islands[CODES];
static uint32_t islands_used; /* stored last */

static struct code codes[CODES];
static uint32_t codes_used; /* stored last */

/* All of them lie between: most handlers need not look closer. */
uint64_t dp_code_low HIDDEN = ~0ULL, dp_code_high HIDDEN;

uint64_t dp_handlers[DP_HANDLERS] HIDDEN;
extern const uint8_t dp_handler_entries[] HIDDEN;

static void widen(uint64_t low, uint64_t high)
{
	if (low < dp_code_low)
		__atomic_store_n(&dp_code_low, low, __ATOMIC_RELAXED);
	if (high > dp_code_high)
		__atomic_store_n(&dp_code_high, high, __ATOMIC_RELAXED);
}

static void note_islands(const struct dp_arena *a)
{
	uint32_t n = islands_used;
	if (!a->islands_count || n == CODES)
		return;
	const struct island *list = (const struct island *)a->islands;
	islands[n] = (struct islands){list, a->islands_count};
	__atomic_store_n(&islands_used, n + 1, __ATOMIC_RELEASE);
	widen(list[0].at, list[a->islands_count - 1].at + 1);
}

void dp_note_origins(const struct dp_ctl *ctl)
{
	for (uint32_t i = 0; i < ctl->arenas_count; i++) {
		const struct dp_arena *a = &ctl->arenas[i];
		uint32_t n = codes_used;
		note_islands(a);
		if (!a->origins || n == CODES)
			continue;
		codes[n] = (struct code){a->at, a->at + a->size, a->at + a->cold, (const struct origin *)a->origins,
					 (const uint8_t(*)[2])a->lengths, a->origins_count};
		__atomic_store_n(&codes_used, n + 1, __ATOMIC_RELEASE);
		widen(a->at, a->at + a->size);
	}
}

void dp_forget_origins(void)
{
	codes_used = islands_used = 0;
}

/* Sizes of what stubgen/redirect.go writes. */
enum { FRONT_PLAIN = 48, FRONT_FLAGS = 64, FRONT_COUNTED = 19, FRONT_ARRIVE = 25, FRONT_LAP = 32, FRONT_BACK = 46, FRONT_ON = 58 };

/* The size of the front that a record's stub begins with. */
static uint64_t front_of(const struct origin *o)
{
	if (!(o->flags & HAS_FRONT))
		return 0;
	return o->flags & KEEPS_FLAGS ? FRONT_FLAGS : FRONT_PLAIN;
}

static void store_jump(uint8_t *at, uint64_t over)
{
	__atomic_store_n((uint16_t *)at, (uint16_t)(0xeb | (over - 2) << 8), __ATOMIC_RELEASE);
}

/* Has a stub jump to behind its count; its front goes on where it leads. What is
 * redirected, by a jump backwards, stays so. */
static void end_count(uint8_t *stub, const struct origin *o)
{
	enum { ON = 6 }; /* stubgen/redirect.go: the front's last jump */
	uint64_t front = front_of(o);
	if (front)
		store_jump(stub, front - ON);
	if (!(front && stub[front] == 0xeb && stub[front + 1] & 0x80))
		store_jump(stub + front, o->body - front);
}

/* The first instruction of a stub is part of its count. */
uint32_t dp_end_counts(uint32_t but)
{
	uint32_t used = __atomic_load_n(&codes_used, __ATOMIC_ACQUIRE);
	for (uint32_t i = but; i < used; i++) {
		const struct code *c = &codes[i];
		uint8_t *to = dp_writable(c->low, c->cold - c->low);
		for (uint64_t k = 0; to && k < c->count; k++) {
			const struct origin *o = &c->origins[k];
			if (o->body)
				end_count(to + o->at, o);
		}
		if (to)
			ask(SYS_munmap, to, c->cold - c->low);
	}
	return used;
}

/* ---- installing ------------------------------------------------------- */

static int is_entry(uint64_t handler)
{
	return handler - (uint64_t)dp_handler_entries < DP_HANDLERS * DP_ENTRY_SIZE;
}

uint64_t dp_entry_of(uint64_t handler)
{
	for (uint64_t i = 0; i < DP_HANDLERS; i++) {
		uint64_t is = __atomic_load_n(&dp_handlers[i], __ATOMIC_RELAXED);
		if (is == 0 && __atomic_compare_exchange_n(&dp_handlers[i], &is, handler, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			is = handler;
		if (is == handler)
			return (uint64_t)dp_handler_entries + i * DP_ENTRY_SIZE;
	}
	return handler;
}

long dp_install(long sig, const struct action *act, struct action *old)
{
	struct action ours;
	uint64_t program = act ? (uint64_t)act->handler : 0;
	if (program > (uint64_t)SIG_IGN && program != (uint64_t)SIG_ERR && !is_entry(program)) {
		ours = *act;
		ours.handler = (handler)dp_entry_of(program);
		act = &ours;
	}
	long ret = raw(SYS_rt_sigaction, sig, act, old, 8);
	if (ret == 0 && old && dp_is_fault_handler((uint64_t)old->handler))
		*old = (struct action){0};
	if (ret == 0 && old && is_entry((uint64_t)old->handler))
		old->handler = (handler)dp_handlers[((uint64_t)old->handler - (uint64_t)dp_handler_entries) / DP_ENTRY_SIZE];
	return ret;
}

/* Stands in for rt_sigaction. What lies on the caller's stack can be read; a
 * wrong pointer from elsewhere is the kernel's business. */
long dp_action(long sig, const struct action *act, struct action *old, long size, uint64_t stack) HIDDEN;
long dp_action(long sig, const struct action *act, struct action *old, long size, uint64_t stack)
{
	enum { NEAR = 64 << 10 };
	if (size != 8 || (act && (uint64_t)act - (stack - 128) >= NEAR))
		return raw(SYS_rt_sigaction, sig, act, old, size);
	if (dp_handles_traps)
		return dp_trap_action(sig, act, old);
	return dp_install(sig, act, old);
}

/* ---- showing ---------------------------------------------------------- */

static const struct code *code_at(uint64_t rip)
{
	uint32_t n = __atomic_load_n(&codes_used, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n; i++)
		if (rip >= codes[i].low && rip < codes[i].high)
			return &codes[i];
	return 0;
}

/* The branch that hops to the island at rip; 0 if there is none. */
static uint64_t hop_to(uint64_t rip)
{
	uint32_t n = __atomic_load_n(&islands_used, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n; i++) {
		const struct island *list = islands[i].list;
		uint64_t low = 0, high = islands[i].count;
		while (low < high) {
			uint64_t mid = (low + high) / 2;
			if (list[mid].at == rip)
				return list[mid].from;
			if (list[mid].at < rip)
				low = mid + 1;
			else
				high = mid;
		}
	}
	return 0;
}

/* The last record that starts at or before the offset at. */
static const struct origin *origin_at(const struct code *c, uint64_t at)
{
	uint64_t low = 0, high = c->count;
	while (low < high) {
		uint64_t mid = (low + high) / 2;
		if (c->origins[mid].at <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? &c->origins[low - 1] : 0;
}

/* Sizes of what stubgen/emit.go and relocate.go write. */
enum {
	RED_ZONE = 128,
	SAVED_RAX = 6, /* lea, push */
	SAVED = 10,    /* lahf, seto: the inc stands here */
	RESTORED = 8 + 1, /* pop, lea: what is left behind sahf */
	CALL_OVER = 6, CALL_POPPED = 11,
	COLD_PUSHED = 10, COLD_CALLED = 15, COLD_DONE = 23, COLD_JUMP = 28, COLD_SIZE = 32,
	CF_PF_AF_ZF_SF = 0xd5, OF = 1 << 11,
};

/* The count of a stub that keeps flags. In front of the inc all is as it was
 * but for what lies on the stack; behind it the flags are in ah and al. */
static void show_keeping_flags(uint64_t *g, uint64_t pos, uint64_t body, struct dp_shown *s)
{
	uint64_t rax = g[DP_REG_RAX];
	if (pos < SAVED_RAX - 1)
		return;
	if (pos < SAVED_RAX || pos >= body - 8) { /* only the red zone is left */
		g[DP_REG_RSP] += RED_ZONE;
	} else {
		if (pos > SAVED && pos < body - RESTORED) {
			int before = pos < body - RESTORED - 1; /* add al, 0x7f; sahf */
			int overflow = before ? (rax & 0xff) != 0 : (rax & 0xff) == 0x80;
			g[DP_REG_EFLAGS] &= ~(uint64_t)(CF_PF_AF_ZF_SF | OF);
			g[DP_REG_EFLAGS] |= (rax >> 8 & CF_PF_AF_ZF_SF) | (overflow ? OF : 0);
		}
		g[DP_REG_RAX] = *(const uint64_t *)g[DP_REG_RSP];
		g[DP_REG_RSP] += 8 + RED_ZONE;
	}
	if (pos > SAVED)
		s->resume += body;
}

/* As show_keeping_flags, at an offset of a front: its instructions are those of the
 * count, in another order, and jumps. */
static void show_front(uint64_t *g, uint64_t pos, uint64_t body, uint64_t stub, struct dp_shown *s)
{
	uint64_t same = pos;
	if (pos >= FRONT_ON || (pos >= FRONT_ARRIVE && pos < FRONT_LAP))
		same = 0;
	else if (pos >= FRONT_BACK)
		same = body - (FRONT_ON - pos);
	else if (pos >= FRONT_COUNTED)
		same = FRONT_COUNTED;
	show_keeping_flags(g, same, body, s);
	int counted = pos >= FRONT_LAP || (pos >= FRONT_COUNTED && pos < FRONT_ARRIVE);
	s->resume = counted ? stub - (FRONT_FLAGS - FRONT_ON) : stub;
}

/* Finds the copy that holds the offset pos of the body; *from and *to are
 * advanced to the instruction and its copy. Returns its length, 0 behind the
 * last. */
static const uint8_t *copy_at(const struct code *c, const struct origin *o, uint64_t pos, uint64_t *from, uint64_t *to)
{
	for (uint32_t i = 0; i < o->count; i++) {
		const uint8_t *n = c->lengths[o->lengths / 2 + i];
		if (pos - *to < n[1])
			return n;
		*from += n[0] & ~IS_CALL;
		*to += n[1];
	}
	return 0;
}

/* A position in a stub. */
static int show_stub(const struct code *c, const struct origin *o, uint64_t pos, uint64_t *g, struct dp_shown *s)
{
	uint64_t from = c->low + (int64_t)o->from, to = 0, stub = c->low + o->at;
	s->low = from;
	s->go = o->flags & IS_GO;
	if (pos < o->body) {
		uint64_t front = front_of(o);
		s->resume = stub + front;
		if (o->flags & KEEPS_FLAGS && pos < front)
			show_front(g, pos, o->body - front, stub + front, s);
		else if (o->flags & KEEPS_FLAGS)
			show_keeping_flags(g, pos - front, o->body - front, s);
		else
			s->resume = g[DP_REG_RIP];
		g[DP_REG_RIP] = from;
		return 1;
	}
	pos -= o->body;
	const uint8_t *n = copy_at(c, o, pos, &from, &to);
	if (n && pos != to && !(n[0] & IS_CALL)) { /* at a jump of an expanded loop: it is as good as done */
		const uint8_t *jump = (const uint8_t *)g[DP_REG_RIP];
		g[DP_REG_RIP] += jump[0] == 0xeb ? 2 + (int64_t)(int8_t)jump[1] : 5 + (int64_t) * (const int32_t *)(jump + 1);
		pos = g[DP_REG_RIP] - stub - o->body;
		from = c->low + (int64_t)o->from, to = 0;
		s->rip = g[DP_REG_RIP];
		if (g[DP_REG_RIP] < c->low || g[DP_REG_RIP] >= c->high)
			return 0;
		n = copy_at(c, o, pos, &from, &to);
	}
	g[DP_REG_RIP] = from;
	if (!n)
		return 0; /* at the jump back: it is as good as done */
	s->resume = stub + o->body + to;
	if (n[0] & IS_CALL && (pos - to == CALL_OVER || pos - to > CALL_POPPED))
		g[DP_REG_RSP] += 8;
	return 1;
}

/* A position in a cold block, or in the arena's jump to the slow path. */
static int show_cold(const struct code *c, uint64_t pos, uint64_t *g, struct dp_shown *s)
{
	uint64_t rsp = g[DP_REG_RSP], block = g[DP_REG_RIP] - pos;
	if (pos >= COLD_JUMP)
		return 0;
	if (pos >= COLD_PUSHED && pos < COLD_DONE)
		g[DP_REG_RSP] = rsp + RED_ZONE + 8;
	else if (pos > 0 && pos < COLD_PUSHED)
		g[DP_REG_RSP] = rsp + RED_ZONE;
	s->resume = pos < COLD_CALLED ? block : block + COLD_DONE;
	uint64_t back = block + COLD_JUMP + (int64_t) * (const int32_t *)(block + COLD_JUMP - 4);
	const struct origin *o = back >= c->low && back < c->high ? origin_at(c, back - c->low) : 0;
	if (!o) {
		g[DP_REG_RIP] = s->resume;
		return 0;
	}
	g[DP_REG_RIP] = s->low = c->low + (int64_t)o->from;
	uint64_t stub = c->low + o->at, front = front_of(o);
	if (o->flags & KEEPS_FLAGS && front) {
		show_front(g, back - stub, o->body - front, stub + front, s);
	} else if (o->flags & KEEPS_FLAGS) {
		s->resume = stub;
		show_keeping_flags(g, back - stub, o->body, s);
	}
	return 1;
}

static int show(const struct code *c, uint64_t *g, int fault, struct dp_shown *s)
{
	uint64_t at = g[DP_REG_RIP] - c->low;
	if (at < 16 && *(const uint64_t *)g[DP_REG_RSP] - c->cold < c->high - c->cold) {
		/* In the jump to the slow path: as if the cold block's call were still to come. */
		g[DP_REG_RIP] = *(const uint64_t *)g[DP_REG_RSP] - 5;
		g[DP_REG_RSP] += 8;
		at = g[DP_REG_RIP] - c->low;
	}
	if (c->low + at >= c->cold)
		return show_cold(c, (c->low + at - c->cold) % COLD_SIZE, g, s);
	const struct origin *o = origin_at(c, at);
	/* The Go runtime knows its code: what it may not preempt at an entry it
	 * may not preempt in a stub, but only there does it not try. */
	if (!o || (o->flags & IS_GO && !fault))
		return 0;
	return show_stub(c, o, at - o->at, g, s);
}

static int is_fault(int sig, const siginfo_t *info)
{
	return info->si_code > 0 && (sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGTRAP);
}

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

/* Called in front of a handler. Reports whether dp_depart shall be behind it. */
int dp_arrive(int sig, siginfo_t *info, uint64_t *context, struct dp_shown *s) HIDDEN;
int dp_arrive(int sig, siginfo_t *info, uint64_t *context, struct dp_shown *s)
{
	uint64_t *g = context + DP_UC_GREGS / 8;
	const struct code *c = code_at(g[DP_REG_RIP]);
	int fault = is_fault(sig, info);
	s->rip = g[DP_REG_RIP];
	s->rsp = g[DP_REG_RSP];
	s->rax = g[DP_REG_RAX];
	s->eflags = g[DP_REG_EFLAGS];
	if (!(c ? show(c, g, fault, s) : show_island(g, s)))
		return 0;
	s->to_rip = g[DP_REG_RIP];
	s->to_rsp = g[DP_REG_RSP];
	s->to_rax = g[DP_REG_RAX];
	s->to_eflags = g[DP_REG_EFLAGS];
	if (fault && (sig == SIGILL || sig == SIGFPE) && (uint64_t)info->si_addr == s->rip)
		info->si_addr = (void *)s->to_rip; /* the instruction's address */
	return 1;
}

/* Where the code goes on that stood at rip: in its copy if a patch overwrote
 * it. */
static uint64_t in_copy(const struct dp_shown *s, uint64_t rip)
{
	const struct code *c = code_at(s->rip);
	const struct origin *o = c ? origin_at(c, s->resume - c->low) : 0;
	uint64_t from = s->low, to = 0;
	for (uint32_t i = 0; o && i < o->count && from <= rip; i++) {
		if (from == rip && i > 0)
			return c->low + o->at + o->body + to;
		const uint8_t *n = c->lengths[o->lengths / 2 + i];
		from += n[0] & ~IS_CALL;
		to += n[1];
	}
	return rip;
}

/* Called behind a handler that dp_arrive changed the context for. */
void dp_depart(uint64_t *context, const struct dp_shown *s) HIDDEN;
void dp_depart(uint64_t *context, const struct dp_shown *s)
{
	uint64_t *g = context + DP_UC_GREGS / 8;
	if (g[DP_REG_RIP] == s->to_rip && g[DP_REG_RSP] == s->to_rsp) {
		g[DP_REG_RIP] = s->rip;
		g[DP_REG_RSP] = s->rsp;
		if (g[DP_REG_RAX] == s->to_rax)
			g[DP_REG_RAX] = s->rax;
		if (g[DP_REG_EFLAGS] == s->to_eflags)
			g[DP_REG_EFLAGS] = s->eflags;
		return;
	}
	/* A call that the handler put in between returns to where it was. */
	uint64_t *top = (uint64_t *)g[DP_REG_RSP];
	if (!s->go && g[DP_REG_RSP] == s->to_rsp - 8 && *top == s->to_rip)
		*top = s->resume;
	if (g[DP_REG_RIP] == s->to_rip)
		g[DP_REG_RIP] = s->resume;
	else
		g[DP_REG_RIP] = in_copy(s, g[DP_REG_RIP]);
}
