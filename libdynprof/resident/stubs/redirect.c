/* Redirecting calls, and arming again: changes of a stub's pointers, which are
 * this process's own, and then of its first two bytes, which the fork tree
 * shares (stubgen/emit/redirect.go shows the code).
 *
 * What a thread does that arrives at the stub:
 *  1. The stub's first two bytes are its count, and all is as without us; or
 *     they are a short jump to `jmp *arrive`. They never change back, but where
 *     arrive, next and on have their first values that is the same: the front's
 *     count, then the stub's check, then the displaced instructions.
 *  2. arrive is the front's count or, of a function that is redirected and not
 *     counted, the new code.
 *  3. next is the stub's check; the lap; or, behind a redirect, the way on.
 *  4. on is the displaced instructions, the new code or the function's keep
 *     block, which leads to the new code by way of the keeper (keeper.S).
 * Each is one aligned load: a thread sees the old value or the new one. on is
 * stored before next and arrive, and the two bytes last, so that what a thread
 * finds leads to what was asked for, or to what was before.
 *
 * next follows from on and from the function's fired word, and others may store
 * those: who has changed one of them settles next (see settle).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <time.h>

#define DYNPROF_LIBRARY
#include "../dynprof.h"
#include "base/cpu.h"
#include "base/filters.h"
#include "base/mapped.h"
#include "base/state.h"
#include "stubs/arenas.h"
#include "stubs/redirect.h"
#include "table/entries.h"
#include "table/outcome.h"
#include "table/view.h"

static const struct dp_form plain = DP_FORM_PLAIN, keeps_flags = DP_FORM_FLAGS;

const struct dp_form *dp_form_of(const uint8_t *stub, uint32_t counter, uint32_t count)
{
	static const uint8_t inc[] = DP_INC, lea[] = DP_SAVE;
	enum { REACH = 127 };
	const struct dp_form *f = &plain;
	if ((uint64_t)stub % DP_STUB_ALIGNMENT || count < sizeof inc + 4 || count > REACH)
		return 0;
	if (count > keeps_flags.add + sizeof inc + 4u && same_bytes(stub + DP_JMP_SHORT_SIZE, lea + DP_JMP_SHORT_SIZE, sizeof lea - DP_JMP_SHORT_SIZE))
		f = &keeps_flags;
	const uint8_t *add = stub + f->add;
	uint16_t now = __atomic_load_n((const uint16_t *)stub, __ATOMIC_RELAXED);
	uint32_t disp = 0;
	for (unsigned i = 0; i < 4; i++)
		disp |= (uint32_t)add[sizeof inc + i] << 8 * i;
	if (disp != DP_ROW_COUNTERS + 8 * counter || !same_bytes(add + DP_JMP_SHORT_SIZE, inc + DP_JMP_SHORT_SIZE, sizeof inc - DP_JMP_SHORT_SIZE))
		return 0;
	return now == f->counts || now == dp_short_jump((int)count) || now == dp_short_jump(f->arrive) ? f : 0;
}

static uint64_t front_of(const struct dp_stub *s) { return s->at - s->form->front; }
static uint64_t body_of(const struct dp_stub *s) { return s->at + s->form->body; }
static uint32_t counter_of(const struct dp_stub *s) { return (uint32_t)(s->fired - (uint32_t *)dp.threshold_fired); }

/* Stores the next that goes with on and fired. Who stores one of those settles
 * behind it, and who finds that one has changed meanwhile does it again: the
 * last to store next has seen both as they are. */
static void settle(const struct dp_stub *s)
{
	struct dp_pointers *p = s->pointers;
	uint32_t fired;
	uint64_t on;
	int64_t lap;
	do {
		fired = __atomic_load_n(s->fired, __ATOMIC_SEQ_CST);
		on = __atomic_load_n(&p->on, __ATOMIC_SEQ_CST);
		lap = __atomic_load_n(&p->lap, __ATOMIC_SEQ_CST);
		uint64_t next = on == body_of(s) ? s->at + s->form->check : s->at + (uint64_t)s->form->back;
		if (fired == DP_FIRED_LAP && lap != DP_NO_LAP)
			next = s->at + (uint64_t)s->form->lap;
		else if (s->form == &plain && on != body_of(s))
			next = on;
		__atomic_store_n(&p->next, next, __ATOMIC_SEQ_CST);
	} while (__atomic_load_n(s->fired, __ATOMIC_SEQ_CST) != fired || __atomic_load_n(&p->on, __ATOMIC_SEQ_CST) != on ||
		 (lap == DP_NO_LAP) != (__atomic_load_n(&p->lap, __ATOMIC_SEQ_CST) == DP_NO_LAP));
}

/* The pointers follow from where the front's last jump, jmp *on, looks. */
static struct dp_pointers *pointers_of(uint64_t stub)
{
	const uint64_t on = stub + (uint64_t)(int64_t) * (const int32_t *)(stub - 4);
	return (struct dp_pointers *)(on - offsetof(struct dp_pointers, on));
}

int dp_stub_of_cold(uint64_t at, uint32_t counter, struct dp_stub *s)
{
	uint64_t number, behind;
	if (!dp.translator || !dp_cold_number(at, &number, &behind))
		return 0;
	uint64_t block = at & ~(uint64_t)(DP_COLD_SIZE - 1);
	uint64_t back = block + DP_COLD_JUMP + (uint64_t)(int64_t) * (const int32_t *)(block + DP_COLD_JUMP - 4);
	s->form = *(const uint8_t *)back == DP_FRONT_ON_OP ? &plain : &keeps_flags;
	s->at = back - (uint64_t)s->form->back;
	s->pointers = (struct dp_pointers *)(behind + number * sizeof(struct dp_pointers));
	s->fired = (uint32_t *)dp.threshold_fired + counter;
	return 1;
}

/* A lap is over when its decrement has reached 0, for the thread that saw it and
 * for all behind. The first to change the fired word has the event; then the lap
 * is none, unless it has been set again. */
int dp_claim_lap(struct dp_stub *s)
{
	uint32_t lap = DP_FIRED_LAP;
	int64_t left = __atomic_load_n(&s->pointers->lap, __ATOMIC_SEQ_CST);
	int mine = left <= 0 && __atomic_compare_exchange_n(s->fired, &lap, DP_FIRED_DONE, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	while (left <= 0 && !__atomic_compare_exchange_n(&s->pointers->lap, &left, DP_NO_LAP, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	settle(s);
	return mine;
}

/* ---- the functions of dynprof.h ---------------------------------------- */

static uint32_t lock_word;

void dp_redirect_forked(void)
{
	lock_word = 0;
}

static long lock(void)
{
	enum { MS = 2000 };
	long tid = ask(SYS_gettid);
	uint32_t self = failed(tid) ? 1 : (uint32_t)tid;
	struct timespec tick = {0, 1000 * 1000};
	for (int ms = 0; ms < MS; ms++) {
		uint32_t holder = 0;
		if (__atomic_compare_exchange_n(&lock_word, &holder, self, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return 0;
		if (holder == self)
			return -EDEADLK;
		ask(SYS_nanosleep, &tick, 0);
	}
	return -EBUSY;
}

static void unlock(void) { __atomic_store_n(&lock_word, 0, __ATOMIC_RELEASE); }

/* Finds a function's stub, and where its first two bytes are written to. */
static long find_at(const struct dp_header *view, const struct dp_function *f, struct dp_stub *s, uint8_t **writable)
{
	uint32_t counter = f->counter;
	if (!dp_is_counted(f))
		return -ENODATA;
	s->at = dp_object_of(view, f)->arena + f->stub;
	long err = dp_stub_writable(s->at, writable);
	if (err == -ENXIO)
		return err;
	s->form = dp_form_of((const uint8_t *)s->at, counter, f->count);
	if (!s->form)
		return -ENXIO;
	s->pointers = pointers_of(s->at);
	s->entry = dp_entry_of_function(view, f);
	s->bytes = f->size;
	s->fired = (uint32_t *)dp.threshold_fired + counter;
	return err;
}

static long find(int64_t function, struct dp_stub *s, uint8_t **writable)
{
	const struct dp_header *view = dp_view();
	if (dp_is_off())
		return DYNPROF_OFF;
	if (!dp.translator)
		return -EOPNOTSUPP;
	if (!view)
		return -ENOMEM;
	if ((uint64_t)function >= dp_in_use(&view->functions))
		return -ENOENT;
	return find_at(view, dp_function_at(view, (uint64_t)function), s, writable);
}

/* From now on arrivals go to the front. */
static void use_front(const struct dp_stub *s, uint8_t *writable)
{
	__atomic_store_n((uint16_t *)writable, dp_short_jump(s->form->arrive), __ATOMIC_SEQ_CST);
}

/* Code that would come back to the stub for ever: the function's entry, in its
 * window, or the stub itself. */
static int comes_back(const struct dp_stub *s, uint64_t code)
{
	enum { WINDOW = DP_MAX_HEAD + DP_WINDOW_SIZE };
	uint64_t off = code - s->entry;
	return (code >= front_of(s) && code < body_of(s)) || (off < WINDOW && (off == 0 || off < s->bytes));
}

uint8_t dp_keep_width HIDDEN; /* vectors have 128 bits, 1: 256, 2: 512 */

/* Where the stub's last jump is to lead for new code. */
static uint64_t way_to(const struct dp_stub *s, uint64_t code, int flags)
{
	uint64_t keep = s->pointers->keep;
	if (keep == DP_KEEP_NOTHING || flags & DYNPROF_RAW)
		return code;
	dp_keep_width = dp_cpu()->words ? 2 : dp_cpu()->avx;
	__atomic_store_n(&s->pointers->code, code, __ATOMIC_SEQ_CST);
	return keep;
}

int dynprof_redirect(int64_t function, const void *code, int flags)
{
	struct dp_stub s = {0};
	uint8_t *writable;
	long err = find(function, &s, &writable);
	if (!err && (!code || comes_back(&s, (uint64_t)code) || !dp_is_executable((uint64_t)code)))
		err = -EINVAL;
	if (!err && !(flags & DYNPROF_RAW))
		err = s.pointers->keep == DP_KEEP_CUSTOM ? -EPROTOTYPE : s.pointers->keep == DP_KEEP_STACK_UNKNOWN ? -E2BIG : 0;
	if (!err)
		err = lock();
	if (err && s.fired)
		dp_refused(counter_of(&s));
	if (err)
		return (int)err;
	uint64_t way = way_to(&s, (uint64_t)code, flags);
	__atomic_store_n(&s.pointers->on, way, __ATOMIC_SEQ_CST);
	settle(&s);
	__atomic_store_n(&s.pointers->arrive, flags & ~DYNPROF_RAW ? front_of(&s) : way, __ATOMIC_SEQ_CST);
	use_front(&s, writable);
	unlock();
	dp_outcome_of(counter_of(&s), DP_OUTCOME_REDIRECTED);
	return 0;
}

int dynprof_restore(int64_t function)
{
	struct dp_stub s;
	uint8_t *writable;
	long err = find(function, &s, &writable);
	if (!err)
		err = lock();
	if (err)
		return (int)err;
	__atomic_store_n(&s.pointers->on, body_of(&s), __ATOMIC_SEQ_CST);
	settle(&s);
	__atomic_store_n(&s.pointers->arrive, front_of(&s), __ATOMIC_SEQ_CST);
	unlock();
	dp_outcome_of(counter_of(&s), DP_OUTCOME_RESTORED);
	return 0;
}

/* 1. The lap is set. Who is just counting down the last one counts this one down.
 * 2. The fired word says so: who finds a lap over from now on has its event.
 * 3. Arrivals are sent to the lap. */
int dynprof_rearm(int64_t function, uint64_t calls)
{
	struct dp_stub s;
	uint8_t *writable;
	long err = find(function, &s, &writable);
	if (!err && (calls == 0 || calls > DYNPROF_MOST_CALLS))
		err = -EINVAL;
	if (!err && __atomic_load_n(&s.pointers->arrive, __ATOMIC_RELAXED) != front_of(&s))
		err = -ENODATA; /* redirected, and not counted */
	if (err)
		return (int)err;
	__atomic_store_n(&s.pointers->lap, (int64_t)calls, __ATOMIC_SEQ_CST);
	__atomic_store_n(s.fired, DP_FIRED_LAP, __ATOMIC_SEQ_CST);
	settle(&s);
	use_front(&s, writable);
	return 0;
}

/* The limit is inside one aligned quad, so that a thread that fetches the check
 * meanwhile finds the old one or the new (AMD64 Architecture Programmer's Manual,
 * volume 1, 3.9.1; 24593, 7.6.1). Then the function is armed. */
static void set_limit(const struct dp_stub *s, uint8_t *writable, uint32_t limit)
{
	uint64_t *quad = (uint64_t *)(writable + s->form->limit_at), value = *quad;
	for (int i = 0; i < 4; i++)
		((uint8_t *)&value)[s->form->limit - s->form->limit_at + i] = (uint8_t)(limit >> 8 * i);
	__atomic_store_n(quad, value, __ATOMIC_SEQ_CST);
	uint32_t never = DP_FIRED_NEVER;
	__atomic_compare_exchange_n(s->fired, &never, DP_FIRED_ARMED, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static uint32_t all_limit; /* of functions to which the run gives no threshold */

static long arm_from(uint32_t first)
{
	const struct dp_header *view = dp_view();
	if (dp_is_off())
		return 0;
	if (!view)
		return -ENOMEM;
	int64_t n = dp_in_use(&view->functions);
	for (int64_t i = first; i < n; i++) {
		struct dp_stub s;
		uint8_t *writable;
		long err = find(i, &s, &writable);
		if (err == -EPERM || err == -ENOMEM)
			return err;
		if (!err && __atomic_load_n(s.fired, __ATOMIC_RELAXED) == DP_FIRED_NEVER)
			set_limit(&s, writable, all_limit);
	}
	return 0;
}

long dp_arm_all(uint32_t threshold)
{
	all_limit = threshold;
	return arm_from(0);
}

void dp_arm_new(uint32_t first)
{
	const struct dp_header *view = dp.translator ? dp_view() : 0;
	if (!view)
		return;
	uint32_t n = dp_in_use(&view->functions);
	for (uint32_t i = first; i < n; i++) {
		const struct dp_function *f = dp_function_at(view, i);
		uint32_t counter = f->counter, armed = DP_FIRED_ARMED;
		if (counter != DP_NO_COUNTER && f->threshold == 0)
			__atomic_compare_exchange_n((uint32_t *)dp.threshold_fired + counter, &armed, DP_FIRED_NEVER, 0,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
	if (all_limit)
		arm_from(first);
}

uint64_t dp_body_of(const struct dp_header *view, const struct dp_function *f)
{
	struct dp_stub s;
	uint8_t *writable;
	long err = find_at(view, f, &s, &writable);
	return err && err != -EPERM ? 0 : body_of(&s);
}

const void *dynprof_original(int64_t function)
{
	struct dp_stub s;
	uint8_t *writable;
	long err = find(function, &s, &writable);
	return err && err != -EPERM ? 0 : (const void *)body_of(&s);
}
