/* Counting begins, pauses and ends in a process that runs, while all its threads are stopped but
 * the one that is here, on a stack of its own and with all signals blocked (park.S). Who is
 * outside has left what is to be done (attach.h).
 *
 * To begin:
 *  1. The arenas are mapped. If a thread is about to make a system call that must be known of
 *     before (a birth), nothing else happens: it is tried again when that is over. So it is where a
 *     fault has called a handler, which runs, at what is to be changed; some times.
 *  2. The table is mapped, which may have to be sent first; threads get rows, in the order in which they are listed.
 *  3. The patches are made.
 *  4. Threads, and what handlers have interrupted, go on in the copies of what was
 *     overwritten; the latter when the handler returns, if that is taken (signals/kept.c). Where threads stand at an entry they come by the patch: that is a call. Where
 *     the kernel has just entered a handler they come by our entry, as what it looks at is in a copy.
 *  5. The kernel gets our entries in place of the program's handlers.
 * To end:
 *  1. Threads go on in the program's code, in the state that a handler would see. Who is in
 *     code of ours that stands for none of the program's stays there, and is counted.
 *  2. All text that is as we left it becomes what it was; the kernel gets the program's
 *     handlers. Who is in a thunk yet makes his system call, and nobody does anything for us.
 *  3. What is ours is listed. It is unmapped from outside when nobody can be in it, nor come
 *     back to it.
 * To add what was loaded meanwhile: as for objects that come later (plans/late.c), and then 4.
 * To pause, or to go on, is what the program could ask for itself (stubs/pause.c).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>

#define DYNPROF_LIBRARY
#include "../dynprof.h"
#include "attach/attach.h"
#include "attach/companion.h"
#include "base/hooks.h"
#include "base/lock.h"
#include "base/pages.h"
#include "base/sidestack.h"
#include "base/state.h"
#include "plans/activate.h"
#include "plans/begin.h"
#include "plans/late.h"
#include "plans/patch.h"
#include "plans/refused.h"
#include "rows/birth.h"
#include "rows/chunks.h"
#include "rows/rows.h"
#include "rows/space.h"
#include "signals/action.h"
#include "signals/entries.h"
#include "signals/handlers.h"
#include "signals/kept.h"
#include "signals/signals.h"
#include "signals/traps.h"
#include "sites/ends.h"
#include "sites/successor.h"
#include "sites/watches.h"
#include "stubs/arenas.h"
#include "texts/undos.h"

/* ---- there is no planner, but who stays beside it may be one ------------ */

static void tell(const struct dp_hot *e) { (void)e; }
static void nothing(void) {}
static int never(struct dp_ctl *ctl)
{
	(void)ctl;
	return 0;
}
static int no_scratch(struct dp_session *s)
{
	(void)s;
	return 0;
}
static void finish_late(struct dp_session *s, long twin, int reaped, int wanted)
{
	(void)s;
	(void)twin;
	(void)reaped;
	(void)wanted;
}

static int waits(const struct dp_ctl *ctl);
static void refuse_struck(const struct dp_ctl *ctl, struct dp_refused *r);
static void forked(void)
{
	dp_companion_forked();
	dp_meets = 0;
}

/* One by one: a whole struct would be data with addresses in it. */
static void answer(void)
{
	dp_hooks.tell = tell;
	dp_hooks.objects_gone = nothing;
	dp_hooks.forked = forked;
	dp_hooks.start_warm = never;
	dp_hooks.plan = dp_companion_plans;
	dp_hooks.waits = waits;
	dp_hooks.refuse = refuse_struck;
	dp_hooks.finish_late = finish_late;
	dp_hooks.map_scratch = no_scratch;
	dp_hooks.unmap_scratch = dp_companion_is_through;
}

/* ---- contexts ----------------------------------------------------------- */

enum { CONTEXT_WORDS = DP_UC_GREGS / 8 + DP_REG_EFLAGS + 1 };

#define ALL_REGISTERS(each) \
	each(RIP, rip) each(RSP, rsp) each(RAX, rax) each(EFLAGS, eflags) each(RBX, rbx) each(RCX, rcx) \
	each(RDX, rdx) each(RSI, rsi) each(RDI, rdi) each(RBP, rbp) each(R8, r8) each(R8 + 1, r9) each(R8 + 2, r10) \
	each(R8 + 3, r11) each(R8 + 4, r12) each(R8 + 5, r13) each(R8 + 6, r14) each(R8 + 7, r15)

static void to_context(const struct dp_place *p, uint64_t *context)
{
	uint64_t *g = context + DP_UC_GREGS / 8;
#define TO(name, field) g[DP_REG_##name] = p->field;
	ALL_REGISTERS(TO)
#undef TO
}

static void from_context(struct dp_place *p, const uint64_t *context)
{
	const uint64_t *g = context + DP_UC_GREGS / 8;
#define FROM(name, field) p->field = g[DP_REG_##name];
	ALL_REGISTERS(FROM)
#undef FROM
}

static struct dp_parked *thread(const struct dp_attach *a, uint64_t i) { return (struct dp_parked *)a->threads + i; }
static uint64_t *frame(const struct dp_attach *a, uint64_t i) { return (uint64_t *)((const uint64_t *)a->frames)[i]; }

/* ---- beginning ------------------------------------------------------------ */

/* Whether a thread there is about to make, or to make again, a system call that we must
 * know of before: it stands behind what a kernel site's patch overwrites, or in it. */
static int is_at_site(const struct dp_attach *a, uint64_t rip, uint64_t rax)
{
	enum { REACH = 48 }; /* from a site's first byte to its system call, and more */
	const struct dp_undo_text *t = (const struct dp_undo_text *)a->undos, *end = t + a->undos_count;
	if (!dp_is_watched((uint32_t)rax))
		return 0;
	for (; t < end; t++) {
		if (rip < t->start || rip >= t->start + t->size)
			continue;
		for (uint32_t i = dp_first_near(t, rip - REACH); i < t->count && dp_change_at(t, i) < rip; i++)
			if (!dp_is_call(t, i) && dp_overwritten_of(t, i)->kind == DP_UNDO_SITE && rip - dp_change_at(t, i) <= REACH)
				return 1;
	}
	return 0;
}

static int any_at_site(const struct dp_attach *a)
{
	for (uint64_t i = 0; i < a->threads_count; i++)
		if (is_at_site(a, thread(a, i)->from.rip, thread(a, i)->from.rax))
			return 1;
	for (uint64_t i = 0; i < a->frames_count; i++) {
		const uint64_t *g = frame(a, i) + DP_UC_GREGS / 8;
		if (is_at_site(a, g[DP_REG_RIP], g[DP_REG_RAX]))
			return 1;
	}
	return 0;
}

/* A handler that a fault has called may look where that was, and have the thread go on behind
 * the instruction, or elsewhere in the function. It returns by the program's restorer if it was
 * called before, so that nobody would lead it from what is overwritten to the copy, unless we take such
 * returns. */
enum { INSTRUCTION = 16 };

static int is_changed_behind(const struct dp_undo_text *t, uint32_t i, uint64_t struck)
{
	return !dp_is_call(t, i) && dp_overwritten_of(t, i)->kind != DP_UNDO_SITE && dp_change_at(t, i) + dp_overwritten_of(t, i)->len > struck;
}

/* How many changes are where faults have called handlers that run. They are refused, if there is r. */
static uint32_t struck_changes(const struct dp_attach *a, const struct dp_undo_text *t, struct dp_refused *r)
{
	uint32_t n = 0;
	for (uint64_t s = 0; s < a->struck_count; s++) {
		uint64_t at = ((const uint64_t *)a->struck)[s];
		if (at < t->start || at >= t->start + t->size)
			continue;
		for (uint32_t i = dp_first_near(t, at); i < t->count && dp_change_at(t, i) < at + INSTRUCTION; i++) {
			if (!is_changed_behind(t, i, at))
				continue;
			n++;
			if (r)
				dp_refuse(r, dp_group(t, dp_overwritten_of(t, i)->group));
		}
	}
	return n;
}

static int any_struck(const struct dp_attach *a)
{
	const struct dp_undo_text *t = (const struct dp_undo_text *)a->undos, *end = t + a->undos_count;
	for (; t < end && !a->leaves_struck; t++)
		if (struck_changes(a, t, 0))
			return 1;
	return 0;
}

static const struct dp_attach *applied; /* 0: no thread has been where text is changed */

static void refuse_struck(const struct dp_ctl *ctl, struct dp_refused *r)
{
	for (uint64_t i = 0; applied && i < ctl->undos_count; i++)
		struck_changes(applied, (const struct dp_undo_text *)ctl->undos + i, r);
}

static struct dp_parked *first_thread(const struct dp_attach *a)
{
	for (uint64_t i = 0; i < a->threads_count; i++)
		if (thread(a, i)->tid == a->first)
			return thread(a, i);
	return 0;
}

/* The first thread has the first row, also if it has ended. */
static void give_rows(const struct dp_attach *a)
{
	for (uint64_t i = 0; i < a->threads_count; i++) {
		struct dp_parked *t = thread(a, i);
		struct dp_row *row = t == first_thread(a) ? dp_row_at(0) : dp_row_take(DP_ROW_THREAD);
		if (t != first_thread(a) && row) {
			dp_birth_of(row)->flags = !DP_BIRTH_ENDED; /* it was born long ago, and runs */
			dp_row_made(row, (long)t->tid);
		}
		t->gs = (uint64_t)(row ? row : dp.discard);
	}
}

struct beginning {
	struct dp_attach *a;
	struct dp_begin begin;
};

/* The table, where no name leads to it from here, as in a container:
 *  1. Two sockets are made that are connected, and the number of one is said.
 *  2. Who is outside takes that one (pidfd_getfd), and sends the table by it.
 *  3. Both are closed. Had he been killed, he is waited for for a second. */
static long receive_table(struct dp_attach *a)
{
	struct timeval most = {1, 0};
	int ends[2];
	char byte;
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.head = {0}};
	struct iovec data = {&byte, 1};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	long got = raw(SYS_socketpair, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends);
	if (failed(got))
		return got;
	got = raw(SYS_setsockopt, ends[0], SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
	if (!failed(got)) {
		__atomic_store_n(&a->socket, (uint64_t)ends[1] + 1, __ATOMIC_RELEASE);
		got = raw(SYS_recvmsg, ends[0], &message, MSG_CMSG_CLOEXEC);
	}
	raw(SYS_close, ends[0]);
	raw(SYS_close, ends[1]);
	if (failed(got))
		return got;
	if (message.msg_controllen < CMSG_LEN(sizeof(int)) || control.head.cmsg_type != SCM_RIGHTS)
		return -EBADF;
	return *(const int *)CMSG_DATA(&control.head);
}

static const char *make_rows(void *arg)
{
	struct beginning *b = arg;
	if (any_at_site(b->a)) {
		b->a->outcome = DP_ATTACH_AGAIN;
		return "a thread makes a system call that must be known of";
	}
	if (any_struck(b->a)) {
		b->a->outcome = DP_ATTACH_AGAIN;
		return "a fault has called a handler, which runs, where text is to be changed";
	}
	if (!b->a->table) {
		b->begin.fd = receive_table(b->a);
		if (b->begin.fd == -EAGAIN) {
			b->a->outcome = DP_ATTACH_AGAIN;
			return "the count table was not sent in time";
		}
		if (failed(b->begin.fd))
			return "the count table cannot be sent to it (ulimit -n?)";
	}
	const char *why = dp_begin(&b->begin);
	if (!why && !dp.shared)
		give_rows(b->a);
	return why;
}

static void take_rows_back(void *arg)
{
	const struct beginning *b = arg;
	for (uint64_t i = 0; i < b->a->threads_count; i++)
		thread(b->a, i)->gs = DP_KEEP_GS;
	dp_take_begin_back(0);
}

static void take_handlers(void)
{
	struct action has;
	for (long sig = 1; sig <= 64; sig++)
		if (raw(SYS_rt_sigaction, sig, 0, &has, 8) == 0 && (uint64_t)has.handler > (uint64_t)SIG_IGN)
			dp_install(sig, &has, 0);
}

/* The kernel has forgotten some handlers when it enters them (SA_RESETHAND). */
static void know_handler(const uint64_t *context)
{
	const uint64_t *g = context + DP_UC_GREGS / 8;
	if (dp_is_entered(g))
		dp_give_entry(g[DP_REG_RIP]);
}

static void know_entered(const struct dp_attach *a)
{
	uint64_t context[CONTEXT_WORDS];
	for (uint64_t i = 0; i < a->threads_count; i++) {
		to_context(&thread(a, i)->from, context);
		know_handler(context);
	}
	for (uint64_t i = 0; i < a->frames_count; i++)
		know_handler(frame(a, i));
}

static int is_entered(const uint64_t *context, uint64_t frame)
{
	enum { FRAME = 8 };
	const uint64_t *g = context + DP_UC_GREGS / 8;
	return dp_is_entered(g) && g[DP_REG_RSP] + FRAME == frame;
}

/* Whether a context is that of a handler of which nothing has run: it will see what our entry makes of it. */
static int is_to_be_shown(const struct dp_attach *a, uint64_t frame_at)
{
	uint64_t context[CONTEXT_WORDS];
	for (uint64_t i = 0; i < a->threads_count; i++) {
		to_context(&thread(a, i)->from, context);
		if (is_entered(context, frame_at))
			return 1;
	}
	for (uint64_t i = 0; i < a->frames_count; i++)
		if (is_entered(frame(a, i), frame_at))
			return 1;
	return 0;
}

/* What a handler that runs has interrupted goes on in copies when it returns, if we learn of that:
 * it may look until then, and unwind. */
static void move_frames(const struct dp_attach *a)
{
	for (uint64_t i = 0; i < a->frames_count; i++) {
		uint64_t *f = frame(a, i);
		if (!dp_is_taken(f[-1]) || is_to_be_shown(a, (uint64_t)f))
			dp_moved(f);
	}
}

static void move_threads(const struct dp_attach *a)
{
	uint64_t context[CONTEXT_WORDS];
	for (uint64_t i = 0; i < a->threads_count; i++) {
		struct dp_parked *t = thread(a, i);
		to_context(&t->from, context);
		dp_moved(context);
		from_context(&t->to, context);
	}
}

/* Who writes gets its row's base when it goes on, as all do. */
static const char *begin(struct dp_attach *a)
{
	static struct dp_ctl ctl;
	static struct dp_object self;
	self = (struct dp_object){.low = a->low, .high = a->high, .self = 1};
	ctl.reserve = a->reserve;
	ctl.reserve_size = a->reserve_size;
	ctl.arenas = (struct dp_arena *)a->arenas;
	ctl.arenas_count = (uint32_t)a->arenas_count;
	ctl.texts = (struct dp_text *)a->texts;
	ctl.texts_count = (uint32_t)a->texts_count;
	ctl.undos = a->undos;
	ctl.undos_count = a->undos_count;
	ctl.objects = &self;
	ctl.objects_count = 1;
	if (a->table)
		text_copy(ctl.table, sizeof ctl.table, (const char *)a->table);
	struct beginning b = {a, {(const char *)a->table, (const uint8_t *)a->nonce, (const Elf64_auxv_t *)a->auxv, -1}};
	struct dp_room rows = {make_rows, take_rows_back, &b, 0};
	answer();
	dp_companion_is((const uint8_t *)a->companion, a->companion_size);
	dp_small_stacks = (uint8_t)a->small_stacks;
	dp_kept_mark = a->mark;
	dp_kept_site = (uint64_t)&dp_return_site;
	applied = a;
	const char *why = dp_activate(&ctl, &rows);
	applied = 0;
	if (why)
		return why;
	struct dp_session s = {.ctl = &ctl, .auxv = (const Elf64_auxv_t *)a->auxv, .cache = DP_CACHE_OFF};
	dp_keep(&s, a->r_debug);
	if (dp.table->flags & DP_FLAG_FOLLOW_EXEC)
		dp_successors_followed();
	dp_space_begin();
	know_entered(a);
	move_threads(a);
	move_frames(a);
	take_handlers();
	raw(SYS_munmap, a->reserve, a->reserve_size);
	__atomic_store_n(&dp.table->state, DP_STATE_LIVE, __ATOMIC_RELEASE);
	return 0;
}

/* ---- adding ----------------------------------------------------------------- */

static struct dp_attach *adds; /* 0: what is planned is new, and no thread has been there */

static int waits(const struct dp_ctl *ctl)
{
	if (!adds)
		return 0;
	adds->undos = ctl->undos;
	adds->undos_count = ctl->undos_count;
	return any_at_site(adds); /* the table has them already: whoever asks may do it again, later */
}

/* What was loaded while there was nobody to plan it, as if it came now. */
static const char *add(struct dp_attach *a)
{
	const char *why;
	struct dp_companion had = dp_companion_is((const uint8_t *)a->companion, a->companion_size);
	adds = a;
	applied = a;
	a->result = (int64_t)dp_add_passed(&why);
	adds = 0;
	applied = 0;
	if (a->leaves)
		dp_companion_was(&had);
	if (why == dp_loads)
		a->outcome = DP_ATTACH_AGAIN;
	if (!why && a->result) {
		move_threads(a);
		for (uint64_t i = 0; i < a->frames_count; i++)
			dp_moved(frame(a, i)); /* its thread may be in our entry */
	}
	return why;
}

/* ---- ending ----------------------------------------------------------------- */

static int is_ours(const struct dp_attach *a, uint64_t at) { return at - a->low < a->high - a->low || dp_arena_at(at); }

/* In front of the text's change: islands are known by what stands on them. */
static void show_all(struct dp_attach *a)
{
	uint64_t context[CONTEXT_WORDS];
	for (uint64_t i = 0; i < a->threads_count; i++) {
		struct dp_parked *t = thread(a, i);
		to_context(&t->from, context);
		dp_show(context);
		from_context(&t->to, context);
		if (!is_ours(a, t->to.rip))
			continue;
		t->to = t->from;
		a->inside += is_ours(a, t->from.rip);
	}
}

static void restore_texts(void)
{
	struct dp_text_walk w = dp_walk_texts(0, ~0ULL);
	for (const struct dp_undo_text *t; (t = dp_walk_on(&w));)
		dp_restore_text(t);
}

/* What the program has put in the place of arenas is its own. */
static void disown_replaced(void)
{
	for (uint32_t i = 0, n = dp_arenas_known(); i < n; i++) {
		const struct dp_known *k = dp_arena_number(i);
		if (k && k->gone == DP_REPLACED)
			dp_disown(k->at);
	}
}

/* Who has withdrawn before, as the program took what is ours, unmaps nothing: not all that
 * is listed is ours yet. */
static void end(struct dp_attach *a)
{
	static int ended;
	show_all(a);
	if (dp_withdrawn && !ended)
		a->inside++;
	if (!dp_withdrawn) {
		ended = 1;
		restore_texts();
		dp_kept_no_more = 1;
		dp_handlers_given();
		__atomic_store_n(&dp_withdrawn, 1, __ATOMIC_SEQ_CST);
		dp_loose_rows_end();
		dp_space_as_meant(1);
	}
	disown_replaced();
	a->owned_count = dp_list_owned((struct dp_range *)a->owned, a->owned_room);
}

/* enum dp_attach_state: read from outside. */
uint64_t dp_attach_state HIDDEN;

static void set_state(uint64_t state) { __atomic_store_n(&dp_attach_state, state, __ATOMIC_RELEASE); }

void dp_attach_here(struct dp_attach *a)
{
	if (a->wish != DP_ATTACH && __atomic_load_n(&dp_meets, __ATOMIC_ACQUIRE)) { /* a thread is about to change text, or to wait for a lock */
		a->outcome = DP_ATTACH_AGAIN;
		return;
	}
	if (a->wish == DP_PAUSE || a->wish == DP_RESUME) {
		a->result = a->wish == DP_PAUSE ? dynprof_pause() : dynprof_resume();
		a->outcome = DP_ATTACH_DONE;
		return;
	}
	if (a->wish == DP_DETACH) {
		set_state(DP_ENDS);
		end(a);
		set_state(DP_HAS_ENDED);
		a->outcome = DP_ATTACH_DONE;
		return;
	}
	int adds_only = a->wish == DP_ADD;
	if (!adds_only)
		set_state(DP_BEGINS);
	const char *why = adds_only ? add(a) : begin(a);
	if (!adds_only)
		set_state(why ? DP_NOTHING_YET : DP_COUNTS);
	if (why)
		text_copy(a->why, sizeof a->why, why);
	else
		a->outcome = DP_ATTACH_DONE;
}
