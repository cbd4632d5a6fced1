/* Pausing: every stub begins with its count, and what changes is the first two
 * bytes of that (stubgen/emit/emit.go):
 *
 *	65 48 ff 04 25 <counter>   incq %gs:counter         eb 07   jmp over it
 *	f0 48 ff 05 <view>         lock incq <counter>      eb 06   (all share a row)
 *	48 8d 64 24 80             lea  -0x80(%rsp),%rsp    eb 1d   (flags are kept)
 *
 * Redirectable stubs have a front with a count of its own, which is changed in
 * the same way; one whose first two bytes lead there (redirect.c) keeps them.
 *
 * A stub is aligned, so the two bytes are one aligned store: a thread that
 * arrives meanwhile runs the old instruction or the new one, and in both cases
 * goes on in instructions that do not change. Entries stay patched.
 *
 * The processes of a fork tree share the pages of their arenas, so what one of
 * them does is done for all. Arenas are read+execute everywhere; they are written
 * to through a second mapping that lasts as long as the change.
 *
 *  1. The lock is taken, HdrPauseLock = thread number. Its holder may have died,
 *     or be stopped: after a while it is taken all the same.
 *  2. HdrPaused is stored. If that changes it, HdrPauses is odd until 3 is done, and even
 *     then: so who reads both knows of each time whether counting was on in it (hotspots run
 *     --heat).
 *  3. The stubs are changed to what HdrPaused says, or to jumps if HdrStopped is
 *     set (gs.c), and again if that has changed meanwhile. So if two are at it after all, the later word wins.
 *  4. The lock is given back, if it is still ours.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include "base/ctl.h"
#include "base/filters.h"
#include "base/pages.h"
#include "base/state.h"
#include "stubs/arenas.h"
#include "stubs/pause.h"
#include "stubs/redirect.h"
#include "stubs/switch.h"
#include "table/entries.h"
#include "table/view.h"

enum { LOCK_MS = 2000 };

/* Maps pages of a shared mapping again, writable. */
static uint8_t *map_again(uint64_t at, uint64_t size, long *err)
{
	long view = raw(SYS_mremap, at, 0, size, MREMAP_MAYMOVE);
	if (failed(view)) {
		*err = view;
		return 0;
	}
	long ret = raw(SYS_mprotect, view, size, PROT_READ | PROT_WRITE);
	if (ret == 0)
		return (uint8_t *)view;
	raw(SYS_munmap, view, size);
	*err = ret == -EACCES ? -EPERM : ret;
	return 0;
}

/* Where the stubs are, for whoever changes them. */
struct reach {
	uint8_t *view; /* of the whole reserve, writable; 0: the arenas of this process */
	uint64_t size;
	uint8_t **views; /* of each of them by number, 0 where none is */
	uint32_t count;
};

static uint64_t size_of(const struct dp_known *k) { return k->end - k->at; }

static void unmap_reach(struct reach *r)
{
	if (r->view)
		raw(SYS_munmap, r->view, r->size);
	for (uint32_t i = 0; i < r->count; i++)
		if (r->views[i])
			raw(SYS_munmap, r->views[i], size_of(dp_arena_number(i)));
	if (r->views)
		raw(SYS_munmap, r->views, pages(r->count * sizeof *r->views));
}

static long map_reach(struct reach *r, const struct dp_header *table, uint64_t reserve, uint32_t paused)
{
	long err = 0;
	if (reserve) {
		r->size = pages(table->reserve_used);
		if (r->size)
			r->view = map_again(reserve, r->size, &err);
		return err;
	}
	uint32_t n = dp_arenas_known();
	if (!n)
		return 0;
	long at = raw(SYS_mmap, 0, pages(n * sizeof *r->views), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(at))
		return at;
	r->views = (uint8_t **)at;
	r->count = n;
	for (uint32_t i = 0; i < n && !err; i++) {
		const struct dp_known *k = dp_arena_number(i);
		if (!__atomic_load_n(&k->gone, __ATOMIC_ACQUIRE) && !(k->alone && paused))
			r->views[i] = map_again(k->at, size_of(k), &err);
	}
	return err;
}

/* Where the stub is written to; 0 if it is nowhere in reach, with that much room. The end is
 * that of all that can be written to there. */
static uint8_t *stub_in(const struct reach *r, const struct dp_object_entry *object, uint32_t stub, uint64_t room, const uint8_t **end)
{
	if (r->view) {
		uint64_t kept = object->reserve, at = kept - 1 + stub;
		*end = r->view + r->size;
		return kept && at < r->size && r->size - at >= room ? r->view + at : 0;
	}
	uint64_t at = object->arena + stub;
	const struct dp_known *k = dp_arena_at(at);
	if (!k || k->number >= r->count || !r->views[k->number] || k->end - at < room)
		return 0;
	*end = r->views[k->number] + (k->end - k->at);
	return r->views[k->number] + (at - k->at);
}

enum { SHORT = DP_JMP_SHORT_SIZE };

/* Whether the instruction, its first two bytes apart, adds to the counter. Where
 * the view is that shared counters are in is not known here, but it is pages, as
 * the arena is. Sets *head to its first bytes. */
static int adds_to(const uint8_t *add, uint32_t counter, uint32_t room, const uint8_t **head)
{
	static const uint8_t inc[] = DP_INC, lock_inc[] = DP_LOCK_INC;
	uint64_t at = DP_ROW_COUNTERS + 8 * (uint64_t)counter;
	uint32_t n = same_bytes(add + SHORT, lock_inc + SHORT, sizeof lock_inc - SHORT) ? sizeof lock_inc : sizeof inc, disp = 0;
	*head = n == sizeof inc ? inc : lock_inc;
	if (room < n + 4 || !same_bytes(add + SHORT, *head + SHORT, n - SHORT))
		return 0;
	for (unsigned i = 0; i < 4; i++)
		disp |= (uint32_t)add[n + i] << 8 * i;
	return n == sizeof inc ? disp == at : ((uint64_t)add + n + 4 + disp - at) % DP_PAGE_SIZE == 0;
}

/* Changes one stub, if it is that of the counter. Another process may have had
 * its own arena at the same address, and the table may hold anything. */
static int change(uint8_t *stub, uint32_t counter, uint32_t count, uint32_t paused)
{
	static const uint8_t lea[] = DP_SAVE;
	enum { REACH = 127 };
	const uint8_t *head, *add = stub;
	if ((uint64_t)stub % DP_STUB_ALIGNMENT || count < DP_LOCK_INC_SIZE || count > REACH)
		return 0;
	if (count > DP_SAVED + DP_LOCK_INC_SIZE && same_bytes(stub + SHORT, lea + SHORT, sizeof lea - SHORT))
		add = stub + DP_SAVED;
	if (!adds_to(add, counter, count - (uint32_t)(add - stub), &head))
		return 0;
	if (add != stub)
		head = lea;
	uint16_t counts = (uint16_t)(head[0] | head[1] << 8), jumps = dp_short_jump((int)count);
	uint16_t now = __atomic_load_n((uint16_t *)stub, __ATOMIC_RELAXED);
	if (now != counts && now != jumps)
		return 0;
	__atomic_store_n((uint16_t *)stub, paused ? jumps : counts, __ATOMIC_RELEASE);
	return 1;
}

/* As change, of a redirectable stub. */
static int change_front(uint8_t *stub, uint32_t counter, uint32_t count, uint32_t paused)
{
	const struct dp_form *form = dp_form_of(stub, counter, count);
	if (!form)
		return 0;
	uint16_t to = paused ? dp_short_jump((int)count) : form->counts, now = __atomic_load_n((uint16_t *)stub, __ATOMIC_RELAXED);
	__atomic_store_n((uint16_t *)(stub - form->front),
			 paused ? dp_short_jump(form->front - DP_FRONT_ON) : form->counts, __ATOMIC_RELEASE);
	while (now != dp_short_jump(form->arrive) &&
	       !__atomic_compare_exchange_n((uint16_t *)stub, &now, to, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	return 1;
}

/* Changes the stubs of call sites: before those of functions when counting ends, behind
 * them when it goes on, so that functions have no fewer calls than their sites, but for
 * those that threads are at. */
static long change_sites(const struct dp_header *table, const struct reach *r, uint32_t paused)
{
	const struct dp_site *s = (const struct dp_site *)dp_in_table(table, table->sites.offset);
	uint32_t n = table->sites.offset ? dp_in_use(&table->sites) : 0, functions = dp_in_use(&table->functions);
	long left = 0;
	for (uint32_t i = 0; i < n; i++, s++) {
		if (s->counter == DP_NO_COUNTER || s->callee >= functions)
			continue;
		const struct dp_object_entry *o = dp_object_of(table, dp_function_at(table, s->callee));
		if (!r->view && !o->arena)
			continue;
		const uint8_t *end;
		uint8_t *stub = stub_in(r, o, s->stub, s->count, &end);
		left += !stub || !change(stub, s->counter, s->count, paused);
	}
	return left;
}

/* Whether blocks of a function are counted when counting is not paused any more. In a run with a
 * bound the agent has to choose again. */
static uint32_t counts_blocks(const struct dp_header *table, uint32_t counter)
{
	if (table->overhead)
		return 0;
	if (!(table->flags & DP_FLAG_HOT))
		return table->flags & DP_FLAG_SWITCHED;
	if (counter >= table->fired.capacity)
		return 0;
	uint32_t fired = __atomic_load_n((const uint32_t *)dp_in_table(table, table->fired.offset) + counter, __ATOMIC_SEQ_CST);
	return fired != DP_FIRED_ARMED && fired != DP_FIRED_NEVER;
}

/* Changes a function's stub, and the switch behind it: that first when counting ends, and last
 * when it goes on, so that copies are entered no more often than calls are counted. */
static int change_function(const struct dp_header *table, const struct dp_function *f, uint8_t *stub, const uint8_t *end, uint32_t paused)
{
	uint32_t on = !paused && counts_blocks(table, f->counter);
	if (!on && table->flags & DP_FLAG_SWITCHED)
		dp_turn(stub + f->count, end, 0);
	int done = (table->flags & DP_FLAG_TRANSLATOR ? change_front : change)(stub, f->counter, f->count, paused);
	if (on && done)
		dp_turn(stub + f->count, end, 1);
	return done;
}

/* Where the stub of a function is written to; 0 if it is nowhere in reach. */
static uint8_t *stub_of(const struct dp_header *table, const struct reach *r, const struct dp_function *f, const uint8_t **end)
{
	return f->object < table->objects.capacity ? stub_in(r, dp_object_of(table, f), f->stub, f->count, end) : 0;
}

/* Changes all stubs. Returns how many could not be reached. */
static long change_all(const struct dp_header *table, const struct reach *r, uint32_t paused)
{
	uint32_t n = dp_in_use(&table->functions), objects_max = table->objects.capacity;
	long left = paused ? change_sites(table, r, paused) : 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct dp_function *f = dp_function_at(table, i);
		uint32_t counter = f->counter;
		if (counter == DP_NO_COUNTER)
			continue; /* text that one process took back another may still have */
		const uint8_t *end = 0;
		if (f->object < objects_max && !r->view && !dp_object_of(table, f)->arena)
			continue; /* its library is closed */
		uint8_t *stub = stub_of(table, r, f, &end);
		left += !stub || !change_function(table, f, stub, end, paused);
	}
	return left + (paused ? 0 : change_sites(table, r, paused));
}

/* Takes the lock. The thread that holds it may be one that a signal handler of
 * this very thread has interrupted. */
long dp_pause_lock(struct dp_header *table)
{
	uint32_t *word = &table->pause_lock, self = (uint32_t)raw(SYS_gettid);
	struct timespec tick = {0, 1000 * 1000};
	for (int ms = 0;; ms++) {
		uint32_t holder = 0;
		if (__atomic_compare_exchange_n(word, &holder, self, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return 0;
		if (holder == self)
			return -EDEADLK;
		if (ms == LOCK_MS) {
			__atomic_store_n(word, self, __ATOMIC_RELEASE);
			return 0;
		}
		ask(SYS_nanosleep, &tick, 0);
	}
}

void dp_pause_unlock(struct dp_header *table)
{
	uint32_t self = (uint32_t)raw(SYS_gettid);
	__atomic_compare_exchange_n(&table->pause_lock, &self, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* Stores what shall be, and returns 1 if that is another. Whoever sees it so sees HdrPauses odd, or
 * even again. */
static uint32_t begin_change(struct dp_header *table, uint32_t paused)
{
	uint32_t changes = __atomic_load_n(&table->paused, __ATOMIC_SEQ_CST) != paused;
	__atomic_fetch_add(&table->pauses, changes, __ATOMIC_SEQ_CST);
	__atomic_store_n(&table->paused, paused, __ATOMIC_SEQ_CST);
	return changes;
}

long dp_set_paused(struct dp_header *table, uint64_t reserve, uint32_t paused)
{
	uint32_t done;
	long left = dp_pause_lock(table);
	if (left)
		return left;
	struct reach r = {0};
	dp_reads();
	left = map_reach(&r, table, reserve, paused);
	if (left == 0) {
		uint32_t changes = begin_change(table, paused);
		do {
			done = dp_wants_jumps(table);
			left = change_all(table, &r, done);
		} while (dp_wants_jumps(table) != done);
		__atomic_fetch_add(&table->pauses, changes, __ATOMIC_SEQ_CST);
	}
	unmap_reach(&r);
	dp_has_read();
	dp_pause_unlock(table);
	return left;
}

/* Objects that come while counting is paused do not count either. */
void dp_pause_new(void)
{
	struct dp_header *table = dp.table->paused ? dp_view() : 0;
	if (table)
		dp_set_paused(table, (uint64_t)dp.reserve, 1);
}

/* Maps the table that is open as fd, up to its rows. Returns where, or -errno. */
static long map_table(int fd, uint64_t *size)
{
	struct dp_header *header = (struct dp_header *)raw(SYS_mmap, 0, DP_HEADER_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	if (failed((long)header))
		return (long)header;
	*size = header->rows.offset;
	raw(SYS_munmap, header, DP_HEADER_SIZE);
	return raw(SYS_mmap, 0, *size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
}

long dp_agent_set_paused(int fd, uint64_t reserve, uint32_t paused)
{
	uint64_t size;
	long table = map_table(fd, &size);
	if (failed(table))
		return table;
	long left = dp_set_paused((struct dp_header *)table, reserve, paused);
	raw(SYS_munmap, table, size);
	return left;
}

/* Turns switches as they shall be, or off if nothing counts. */
static long turn_all(const struct dp_header *table, const struct reach *r, const struct dp_turn *turns, uint32_t n, uint32_t jumps)
{
	uint32_t functions = dp_in_use(&table->functions);
	long left = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct dp_function *f = dp_function_at(table, turns[i].function);
		const uint8_t *end = 0;
		uint8_t *stub = turns[i].function < functions ? stub_of(table, r, f, &end) : 0;
		left += !stub || !dp_turn(stub + f->count, end, turns[i].on && !jumps);
	}
	return left;
}

/* The lock is that of pausing, so that what it says of switches lasts. GS may be taken
 * meanwhile: then they are turned again. */
static long turn_within(struct dp_header *table, uint64_t reserve, const struct dp_turn *turns, uint32_t n)
{
	uint32_t jumps;
	struct reach r = {0};
	long left = dp_pause_lock(table);
	if (left)
		return left;
	left = map_reach(&r, table, reserve, 0);
	if (left == 0) {
		do {
			jumps = dp_wants_jumps(table);
			left = turn_all(table, &r, turns, n, jumps);
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
		} while (dp_wants_jumps(table) != jumps);
	}
	unmap_reach(&r);
	dp_pause_unlock(table);
	return left;
}

long dp_agent_turn(int fd, uint64_t reserve, const struct dp_turn *turns, uint32_t n)
{
	uint64_t size;
	long table = map_table(fd, &size);
	if (failed(table))
		return table;
	long left = turn_within((struct dp_header *)table, reserve, turns, n);
	raw(SYS_munmap, table, size);
	return left;
}
