/* A program that makes its own text writable is about to change it: it switches
 * branches on and off (static keys), hooks functions, relocates. It would find
 * our jumps there, and what it writes would not reach the copies in our stubs.
 * So it gets its text back before the mprotect that makes it writable, a kernel
 * site, is made. Other threads may be running that text.
 *
 *  1. All functions are marked of which a patch or moved code lies in the range,
 *     and those whose patches stand in the bodies of marked ones.
 *  2. Every patch of a marked function goes, wherever it is, and every direct
 *     call to it or in the range. The pages are not written to: others with the
 *     program's bytes, mapped elsewhere, take their place by one mremap. To a
 *     thread that runs there a page changes between two instructions: it finds
 *     none, and waits in the kernel, or one of the two, and the kernel's
 *     interrupt for the other serializes its CPU.
 *  3. Islands, and the jumps to what was evicted for them, go behind
 *     the branches that lead to them, when all threads have run: one that has
 *     just been led there leaves by the next instruction (letrun.c).
 *  4. A function whose body was left to islands goes when they are gone: its
 *     entry would lead into them.
 *  5. The ledger says text-changed.
 * Threads in a stub go on there, in a copy of what was, until they leave it.
 * Kernel sites stay: births and filters must be known. They go, too, where all is
 * given back since we withdraw (withdraw.c); the ledger stays as it is then, as it is
 * other processes', too. Where a system call that this takes is refused bytes
 * are written in place, if that can be done. Nothing is read before the kernel has said that it can be: the
 * object may have been closed, and anything be in its place, as the stack of a new
 * thread that is not readable yet.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include "base/filters.h"
#include "base/lock.h"
#include "base/pages.h"
#include "base/regs.h"
#include "base/state.h"
#include "stubs/arenas.h"
#include "table/entries.h"
#include "table/view.h"
#include "texts/giveback.h"
#include "texts/letrun.h"
#include "texts/texts.h"

enum { MOST_BYTES = 1 << 20 };

/* What the sessions have patched. The list only grows. */
struct patched {
	const struct dp_undo_text *texts; /* in order of start */
	uint64_t count;
	uint64_t low, high; /* high is 0 when the objects are gone */
	uint64_t data, data_end; /* the pages of all that stands beside the arenas' code */
};

struct sessions {
	struct sessions *older;
	uint64_t used; /* stored last */
	struct patched patched[DP_PAGE_SIZE / sizeof(struct patched) - 1];
};

static struct sessions *newest;

/* What takes the place of the arenas that they lead to is looked for as well
 * (replaced.c). */
static void add_texts(const struct patched *p)
{
	dp_texts_add(p->data, p->data_end);
	for (uint64_t i = 0; p->high && i < p->count; i++) {
		const struct dp_undo_text *t = &p->texts[i];
		const struct dp_known *k = dp_arena_of_text(t->start);
		dp_texts_add(t->start, t->start + t->size);
		if (!k || k->gone)
			continue;
		dp_texts_add(k->at, k->whole);
		if (k->lasting)
			dp_texts_add((uint64_t)k->lasting, (uint64_t)k->lasting + (k->end - k->at));
	}
}

static void add_all_texts(void)
{
	dp_texts_forget();
	for (struct sessions *s = newest; s; s = s->older)
		for (uint64_t i = 0; i < s->used; i++)
			add_texts(&s->patched[i]);
}

void dp_note_undos(const struct dp_ctl *ctl)
{
	struct sessions *s = newest;
	if (!ctl->undos)
		return;
	if (!s || s->used == sizeof s->patched / sizeof *s->patched) {
		long at = raw(SYS_mmap, 0, pages(sizeof *s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (failed(at))
			return;
		dp_own((uint64_t)at, sizeof *s);
		s = (struct sessions *)at;
		s->older = newest;
		__atomic_store_n(&newest, s, __ATOMIC_RELEASE);
	}
	const struct dp_undo_text *texts = (const struct dp_undo_text *)ctl->undos, *last = &texts[ctl->undos_count - 1];
	const struct dp_arena *data = &ctl->arenas[ctl->arenas_count - 1];
	s->patched[s->used] = (struct patched){texts, ctl->undos_count, texts->start, last->start + last->size, data->at, data->at + data->size};
	__atomic_store_n(&s->used, s->used + 1, __ATOMIC_RELEASE);
	if (dp_texts_begin())
		add_texts(&s->patched[s->used - 1]);
	else
		add_all_texts();
	dp_texts_end();
}

int dp_has_data(uint64_t low, uint64_t high)
{
	for (const struct sessions *s = __atomic_load_n(&newest, __ATOMIC_ACQUIRE); s; s = s->older)
		for (uint64_t i = 0, used = __atomic_load_n(&s->used, __ATOMIC_ACQUIRE); i < used; i++)
			if (s->patched[i].data < high && s->patched[i].data_end > low)
				return 1;
	return 0;
}

/* Goes through the texts that overlap [low, high): as a for's head. */
struct walk {
	uint64_t low, high;
	const struct sessions *sessions;
	uint64_t session, text;
};

static const struct dp_undo_text *next_text(struct walk *w)
{
	for (; w->sessions; w->sessions = w->sessions->older, w->session = 0) {
		uint64_t used = __atomic_load_n(&w->sessions->used, __ATOMIC_ACQUIRE);
		for (; w->session < used; w->session++, w->text = 0) {
			const struct patched *p = &w->sessions->patched[w->session];
			if (__atomic_load_n(&p->high, __ATOMIC_RELAXED) <= w->low || p->low >= w->high)
				continue;
			while (w->text < p->count) {
				const struct dp_undo_text *t = &p->texts[w->text++];
				if (t->start < w->high && t->start + t->size > w->low)
					return t;
			}
		}
	}
	return 0;
}

static struct walk walk(uint64_t low, uint64_t high)
{
	return (struct walk){low, high, __atomic_load_n(&newest, __ATOMIC_ACQUIRE), 0, 0};
}

static const struct dp_undo *undos_of(const struct dp_undo_text *t) { return (const struct dp_undo *)t->undos; }

/* The first change that may concern code at or behind an address. */
static uint32_t first_near(const struct dp_undo_text *t, uint64_t address)
{
	uint32_t low = 0, high = t->count;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		if (t->start + undos_of(t)[mid].at + t->longest < address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The page that the kernel was last asked about. */
struct page {
	uint64_t at; /* NO_PAGE: none yet */
	int there;   /* it can be read */
};

enum { NO_PAGE = 1 };

/* What is to be given back. */
struct change {
	struct page *page;
	uint64_t low, high; /* the range that the program changes */
	uint8_t *marks;     /* a bit for each function */
	uint8_t *hosts;     /* the same, of those in whose bodies islands stand yet */
	uint64_t functions, mapped;
	uint32_t marked, calls;
	int later;          /* islands, too */
	int all;            /* everything, wherever it is */
};

static int has_bit(const struct change *c, const uint8_t *bits, uint32_t group)
{
	return group < c->functions && bits[group / 8] >> group % 8 & 1;
}

static int is_marked(const struct change *c, uint32_t group) { return c->all || has_bit(c, c->marks, group); }

/* The kernel reads a mask before it finds that there is no such operation. */
static int is_there(struct page *p, uint64_t at)
{
	at &= ~(uint64_t)(DP_PAGE_SIZE - 1);
	if (p->at != at)
		*p = (struct page){at, ask(SYS_rt_sigprocmask, -1, at, 0, 8) == -EINVAL};
	return p->there;
}

static int is_made(struct page *p, const struct dp_undo_text *t, const struct dp_undo *u)
{
	uint64_t at = t->start + u->at;
	return is_there(p, at) && is_there(p, at + u->len - 1) && same_bytes((const void *)at, u->new, u->len);
}

/* Whether the change u, at or in front of low, is made, and reaches behind low with
 * its bytes or what it has moved. */
static int concerns(struct page *p, const struct dp_undo_text *t, const struct dp_undo *u, uint64_t low)
{
	return t->start + u->at + dp_span(u->moved) > low && is_made(p, t, u);
}

static void mark(struct change *c, const struct dp_undo_text *t, const struct dp_undo *u)
{
	if (u->group >= c->functions || is_marked(c, u->group) || !is_made(c->page, t, u))
		return;
	c->marks[u->group / 8] |= (uint8_t)(1 << u->group % 8);
	c->marked++;
}

static void mark_range(struct change *c)
{
	struct walk w = walk(c->low, c->high);
	for (const struct dp_undo_text *t; (t = next_text(&w));)
		for (uint32_t i = first_near(t, c->low); i < t->count && t->start + undos_of(t)[i].at < c->high; i++) {
			const struct dp_undo *u = &undos_of(t)[i];
			if (!concerns(c->page, t, u, c->low))
				continue;
			if (u->kind == DP_UNDO_CALL)
				c->calls++;
			else
				mark(c, t, u); /* not sites, which have no function */
		}
}

/* Marks those whose patches stand in dead bodies that come alive. */
static void mark_guests(struct change *c)
{
	for (uint32_t before = ~0U; before != c->marked;) {
		before = c->marked;
		struct walk w = walk(0, ~0ULL);
		for (const struct dp_undo_text *t; (t = next_text(&w));)
			for (uint32_t i = 0; i < t->count; i++)
				if (is_marked(c, undos_of(t)[i].needs))
					mark(c, t, &undos_of(t)[i]);
	}
}

/* Whether the change u goes this time. */
static int goes(const struct change *c, const struct dp_undo_text *t, const struct dp_undo *u)
{
	uint64_t at = t->start + u->at;
	if (!c->all && u->kind == DP_UNDO_CALL && at < c->high && at + u->len > c->low)
		return 1;
	return is_marked(c, u->group) && !has_bit(c, c->hosts, u->group) && (u->kind != DP_UNDO_ISLAND || c->later);
}

/* Whether one of a session's objects is left. */
static int is_left(const struct patched *p)
{
	struct page page = {NO_PAGE, 0};
	for (uint64_t i = 0; i < p->count; i++)
		if (is_there(&page, p->texts[i].start))
			return 1;
	return 0;
}

void dp_forget_undos(void)
{
	int any = 0;
	for (struct sessions *s = newest; s; s = s->older)
		for (uint64_t i = 0; i < s->used; i++)
			if (s->patched[i].high && !is_left(&s->patched[i])) {
				__atomic_store_n(&s->patched[i].high, 0, __ATOMIC_RELAXED);
				any = 1;
			}
	if (!any)
		return;
	dp_texts_begin();
	add_all_texts();
	dp_texts_end();
}

/* ---- pages ------------------------------------------------------------ */

static long map_anonymous(uint64_t size)
{
	return ask(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Copies memory that is there, as words. */
static void copy_words(uint64_t to, uint64_t from, uint64_t size)
{
	for (uint64_t i = 0; i < size; i += 8)
		*(uint64_t *)(to + i) = *(const uint64_t *)(from + i);
}

/* The file's pages for those of the text at at; 0 if there are none to be had. */
static uint64_t file_pages(const struct dp_undo_text *t, uint64_t at, uint64_t size, uint64_t prot)
{
	/* A pipe may have the file's name by now. */
	long fd = ask(SYS_openat, AT_FDCWD, t->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (failed(fd))
		return 0;
	long end = ask(SYS_lseek, fd, 0, 2 /* SEEK_END */); /* a store behind it would raise SIGBUS */
	uint64_t offset = t->offset + (at - t->start);
	long new = failed(end) || offset + size > pages((uint64_t)end) ? -1 : ask(SYS_mmap, 0, size, prot, MAP_PRIVATE, fd, offset);
	ask(SYS_close, fd);
	return failed(new) ? 0 : (uint64_t)new;
}

/* Copies the pages at made that the others differ in. */
static void copy_pages(uint64_t to, uint64_t made, uint64_t size)
{
	for (uint64_t i = 0; i < size; i += DP_PAGE_SIZE)
		if (!same_bytes((const void *)(made + i), (const void *)(to + i), DP_PAGE_SIZE))
			copy_words(to + i, made + i, DP_PAGE_SIZE);
}

/* Some text is in memory that is no file's any more. */
static int anonymous;

/* Pages for the text at at with the bytes of those at made, which go where they are
 * not taken themselves; 0 if there are none. Mostly the file's will do, which need
 * not become executable (PR_SET_MDWE). */
static uint64_t pages_of(const struct dp_undo_text *t, uint64_t at, uint64_t made, uint64_t size)
{
	uint64_t new = file_pages(t, at, size, t->prot);
	if (new && same_bytes((const void *)new, (const void *)made, size)) {
		ask(SYS_munmap, made, size);
		return new;
	}
	if (new && ask(SYS_mprotect, new, size, PROT_READ | PROT_WRITE) == 0) {
		copy_pages(new, made, size);
		ask(SYS_munmap, made, size);
		made = new;
	} else if (new) {
		ask(SYS_munmap, new, size);
	}
	if (made != new)
		__atomic_store_n(&anonymous, 1, __ATOMIC_RELAXED);
	if (ask(SYS_mprotect, made, size, t->prot) == 0)
		return made;
	ask(SYS_munmap, made, size);
	return 0;
}

/* The kernel refuses this advice, which takes nothing away, for locked memory. */
static int is_locked(uint64_t at, uint64_t size)
{
	enum { ADVICE_COLD = 20 };
	return ask(SYS_madvise, at, size, ADVICE_COLD) == -EINVAL;
}

/* Puts new pages in place of those at low. The lock of these goes with them; where
 * memory that is mapped is locked in any case, and in kernels that have no such
 * advice, new pages are as they shall be. */
static int exchange(uint64_t low, uint64_t new, uint64_t size)
{
	int locked = is_locked(low, size) && !is_locked(new, size);
	if (failed(ask(SYS_mremap, new, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, low))) {
		ask(SYS_munmap, new, size);
		return 0;
	}
	if (locked)
		ask(SYS_mlock, low, size);
	return 1;
}

/* Whether nobody else runs in this memory: only then can it be unshared. */
static int is_alone(void) { return ask(SYS_unshare, CLONE_VM) == 0; }

/* Where there are no other pages to be had - a limit of memory, a filter - bytes go
 * where the program's are to be: if nobody else runs there all of them, else where a
 * call leads, as far as CPUs see that change as one. */
static void give_in_place(const struct change *c, const struct dp_undo_text *t, uint32_t first, uint32_t last, uint64_t low, uint64_t high)
{
	enum { WORD = 8 };
	int alone = is_alone();
	if (ask(SYS_mprotect, low, high - low, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
		return;
	for (uint32_t i = first; i <= last; i++) {
		const struct dp_undo *u = &undos_of(t)[i];
		uint64_t at = t->start + u->at;
		int as_one = u->kind == DP_UNDO_CALL && u->len == sizeof(uint32_t) && at % WORD <= WORD - sizeof(uint32_t);
		if ((!alone && !as_one) || !goes(c, t, u) || !is_made(c->page, t, u))
			continue;
		if (as_one)
			*(volatile uint32_t *)at = *(const uint32_t *)u->old;
		else
			for (uint32_t k = 0; k < u->len; k++)
				((volatile uint8_t *)at)[k] = u->old[k];
	}
	ask(SYS_mprotect, low, high - low, t->prot);
}

/* The pages for [low, high) with the program's bytes in place of changes first to
 * last; 0 if there are none. */
static uint64_t restored(const struct change *c, const struct dp_undo_text *t, uint32_t first, uint32_t last, uint64_t low, uint64_t high)
{
	uint64_t size = high - low;
	long made = map_anonymous(size);
	if (failed(made))
		return 0;
	copy_words((uint64_t)made, low, size);
	for (uint32_t i = first; i <= last; i++) {
		const struct dp_undo *u = &undos_of(t)[i];
		for (uint32_t k = 0; k < u->len && goes(c, t, u) && is_made(c->page, t, u); k++)
			((uint8_t *)made)[t->start + u->at + k - low] = u->old[k];
	}
	return pages_of(t, low, (uint64_t)made, size);
}

/* Puts the program's bytes in place of changes first to last, which lie in [low,
 * high), whole pages. */
static void give_pages(const struct change *c, const struct dp_undo_text *t, uint32_t first, uint32_t last, uint64_t low, uint64_t high)
{
	uint64_t new = restored(c, t, first, last, low, high);
	if (!new || !exchange(low, new, high - low))
		give_in_place(c, t, first, last, low, high);
}

/* Changes that share pages go together. */
static void give_text(const struct change *c, const struct dp_undo_text *t)
{
	uint32_t first = 0, last = 0;
	uint64_t low = 0, high = 0;
	for (uint32_t i = 0; i < t->count; i++) {
		const struct dp_undo *u = &undos_of(t)[i];
		uint64_t at = t->start + u->at, from = at & ~(uint64_t)(DP_PAGE_SIZE - 1), to = pages(at + u->len);
		if (!goes(c, t, u) || !is_made(c->page, t, u))
			continue;
		if (high && (from > high || (from == high && high - low >= MOST_BYTES))) {
			give_pages(c, t, first, last, low, high);
			high = 0;
		}
		if (!high)
			first = i, low = from;
		last = i, high = to;
	}
	if (high)
		give_pages(c, t, first, last, low, high);
}

static void give_all(const struct change *c)
{
	struct walk w = walk(0, ~0ULL);
	for (const struct dp_undo_text *t; (t = next_text(&w));)
		give_text(c, t);
}

/* ---- the whole -------------------------------------------------------- */

/* Whether islands are left that may go. */
static int has_islands(const struct change *c)
{
	struct walk w = walk(0, ~0ULL);
	for (const struct dp_undo_text *t; (t = next_text(&w));)
		for (uint32_t i = 0; i < t->count; i++) {
			const struct dp_undo *u = &undos_of(t)[i];
			if (u->kind == DP_UNDO_ISLAND && is_marked(c, u->group) && !has_bit(c, c->hosts, u->group) && is_made(c->page, t, u))
				return 1;
		}
	return 0;
}

/* Returns how many islands stand in bodies. */
static uint32_t note_hosts(const struct change *c)
{
	uint32_t guests = 0;
	for (uint64_t i = 0; i < c->functions / 8 + 1; i++)
		c->hosts[i] = 0;
	struct walk w = walk(0, ~0ULL);
	for (const struct dp_undo_text *t; (t = next_text(&w));)
		for (uint32_t i = 0; i < t->count; i++) {
			const struct dp_undo *u = &undos_of(t)[i];
			if (u->needs >= c->functions || !is_marked(c, u->group) || !is_made(c->page, t, u))
				continue;
			c->hosts[u->needs / 8] |= (uint8_t)(1 << u->needs % 8);
			guests++;
		}
	return guests;
}

static void note_changed(const struct change *c)
{
	const struct dp_header *view = dp_view();
	for (uint64_t i = 0; view && i < c->functions; i++)
		if (is_marked(c, (uint32_t)i)) {
			struct dp_function *f = (struct dp_function *)dp_function_at(view, i);
			__atomic_store_n(&f->reason, DP_CHANGED_REASON, __ATOMIC_RELAXED);
			__atomic_store_n(&f->tactic, DP_REFUSED_TACTIC, __ATOMIC_RELEASE);
		}
}

/* Guests first, then their hosts, which may be guests themselves. Where something is
 * refused no host goes. */
static void give(struct change *c)
{
	for (uint32_t left = ~0U, guests = 0; (guests = note_hosts(c)) < left; left = guests) {
		c->later = 0;
		give_all(c);
		if (has_islands(c)) {
			dp_let_all_run();
			c->later = 1;
			give_all(c);
		}
		if (guests == 0)
			return;
	}
}

static void give_back(struct change *c)
{
	mark_range(c);
	if (!c->marked && !c->calls)
		return;
	mark_guests(c);
	give(c);
	note_changed(c);
}

static uint32_t lock; /* the thread that gives back */

void dp_giveback_forked(void) { lock = 0; }

/* A handler of the thread that has the lock comes here only where a filter lets
 * nobody block signals. */
static int take_lock(void)
{
	enum { PATIENCE = 2000 };
	uint32_t self = (uint32_t)ask(SYS_gettid), holder = 0;
	struct timespec tick = {0, 1000 * 1000};
	for (int i = 0; !__atomic_compare_exchange_n(&lock, &holder, self, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED); i++) {
		if (holder == self || i == PATIENCE)
			return 0;
		holder = 0;
		ask(SYS_nanosleep, &tick, 0);
	}
	return 1;
}

/* Takes room for a bit and another for each function; where there is no memory, what
 * is kept for that, which is enough for most programs. Called with the lock. */
static int take_marks(struct change *c)
{
	enum { KEPT = DP_PAGE_SIZE };
	static uint8_t kept[2][KEPT];
	c->functions = dp.table->functions.count;
	uint64_t bytes = c->functions / 8 + 1;
	long marks = map_anonymous(2 * pages(bytes));
	c->mapped = failed(marks) ? 0 : 2 * pages(bytes);
	c->marks = failed(marks) ? kept[0] : (uint8_t *)marks;
	c->hosts = failed(marks) ? kept[1] : c->marks + pages(bytes);
	for (uint64_t i = 0; !c->mapped && i < KEPT; i++)
		kept[0][i] = 0;
	return c->mapped || bytes <= KEPT;
}

static void leave_marks(const struct change *c)
{
	if (c->mapped)
		ask(SYS_munmap, c->marks, c->mapped);
}

void dp_give_range(uint64_t low, uint64_t high)
{
	struct page page = {NO_PAGE, 0};
	struct change c = {.page = &page, .low = low, .high = high};
	uint64_t all = ~0ULL, mask;
	int blocked = ask(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, 8) == 0;
	if (take_lock()) {
		if (take_marks(&c))
			give_back(&c);
		leave_marks(&c);
		__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
	}
	if (blocked)
		ask(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
}

/* Whether a change of ours is in the range, or right in front of it; functions', or
 * sites'. */
static int is_changed(uint64_t low, uint64_t high, int functions, int sites)
{
	struct walk w = walk(low, high);
	struct page page = {NO_PAGE, 0};
	for (const struct dp_undo_text *t; (t = next_text(&w));)
		for (uint32_t i = first_near(t, low); i < t->count && t->start + undos_of(t)[i].at < high; i++)
			if ((undos_of(t)[i].kind == DP_UNDO_SITE ? sites : functions) && concerns(&page, t, &undos_of(t)[i], low))
				return 1;
	return 0;
}

int dp_is_patched(uint64_t low, uint64_t high) { return is_changed(low, high, 1, 0); }

int dp_has_site(uint64_t low, uint64_t high) { return is_changed(low, high, 0, 1); }

/* What of a change lies in a range; empty if none of it does. */
static struct dp_piece piece(const struct dp_undo_text *t, const struct dp_undo *u, uint64_t low, uint64_t high)
{
	uint64_t at = t->start + u->at, end = at + u->len;
	uint64_t from = at > low ? at : low, to = end < high ? end : high;
	return (struct dp_piece){from, u->old + (from - at), u->new + (from - at), from < to ? to - from : 0};
}

int dp_change_in(uint64_t low, uint64_t high, struct dp_piece *p)
{
	struct walk w = walk(low, high);
	struct page page = {NO_PAGE, 0};
	for (const struct dp_undo_text *t; (t = next_text(&w));)
		for (uint32_t i = first_near(t, low); i < t->count && t->start + undos_of(t)[i].at < high; i++) {
			*p = piece(t, &undos_of(t)[i], low, high);
			if (p->len && !same_bytes(p->old, p->new, p->len) && is_made(&page, t, &undos_of(t)[i]))
				return 1;
		}
	return 0;
}

/* Whoever has been given pages of no file's cannot get the file's by giving them to
 * the kernel: they count as ours. */
uint64_t dp_patched_page(uint64_t low, uint64_t high)
{
	struct walk w = walk(low, high);
	struct page page = {NO_PAGE, 0};
	for (const struct dp_undo_text *t; (t = next_text(&w));)
		for (uint32_t i = first_near(t, low); i < t->count && t->start + undos_of(t)[i].at < high; i++) {
			uint64_t at = t->start + undos_of(t)[i].at;
			if (at + undos_of(t)[i].len <= low || !(is_made(&page, t, &undos_of(t)[i]) || __atomic_load_n(&anonymous, __ATOMIC_RELAXED)))
				continue;
			at &= ~(uint64_t)(DP_PAGE_SIZE - 1);
			high = at > low ? at : low; /* there may be another in front */
			break;
		}
	return high;
}

int dp_is_here(uint64_t at, const uint8_t *bytes, uint64_t n)
{
	struct page page = {NO_PAGE, 0};
	return is_there(&page, at) && is_there(&page, at + n - 1) && same_bytes((const void *)at, bytes, n);
}

int dp_give_all(void)
{
	struct page page = {NO_PAGE, 0};
	struct change c = {.page = &page, .all = 1};
	if (!take_lock())
		return 0;
	int taken = take_marks(&c);
	if (taken)
		give(&c);
	leave_marks(&c);
	__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
	return taken && newest && !is_changed(0, ~0ULL, 1, 1);
}

int dp_is_text(uint64_t address)
{
	struct walk w = walk(address, address + 1);
	return next_text(&w) != 0;
}

int dp_next_text(uint64_t from, uint64_t *low, uint64_t *high)
{
	struct walk w = walk(from, ~0ULL);
	const struct dp_undo_text *next = 0;
	for (const struct dp_undo_text *t; (t = next_text(&w));)
		if (t->start >= from && (!next || t->start < next->start))
			next = t;
	if (!next)
		return 0;
	*low = next->start;
	*high = next->start + next->size;
	return 1;
}

uint64_t dp_syscall_near(uint64_t address)
{
	struct walk w = walk(address, address + 1);
	for (const struct dp_undo_text *t; (t = next_text(&w));)
		for (uint32_t i = 0; i < t->count; i++) {
			const struct dp_undo *u = &undos_of(t)[i];
			if (u->kind == DP_UNDO_SITE && dp_is_syscall(t->start + u->at + u->len))
				return t->start + u->at + u->len;
		}
	return 0;
}

uint64_t dp_returning_near(uint64_t address)
{
	static uint64_t found; /* mostly it is libc's */
	struct walk w = walk(address, address + 1);
	for (const struct dp_undo_text *t; (t = next_text(&w));) {
		uint64_t at = __atomic_load_n(&found, __ATOMIC_RELAXED), end = t->start + t->size - 2;
		for (at = at >= t->start && at < end ? at : t->start; at < end; at++)
			if (dp_is_syscall(at) && *(const uint8_t *)(at + 2) == 0xc3) {
				__atomic_store_n(&found, at, __ATOMIC_RELAXED);
				return at;
			}
	}
	return 0;
}

void dp_text_changes(const struct dp_regs *r)
{
	uint64_t low = r->rdi & ~(uint64_t)(DP_PAGE_SIZE - 1), high = low + pages(r->rsi);
	/* It could not be looked at when it is made writable; and a fault would tell of a
	 * call, which shall not go by way of a stub. */
	int hides = !(r->rdx & PROT_EXEC);
	if ((hides || (r->rdx & PROT_WRITE)) && low < high && dp_is_patched(low, high))
		dp_give_range(low, high);
}
