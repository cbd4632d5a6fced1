/* Objects that are loaded later, by dlopen.
 *
 * The dynamic linker calls a function of its own (r_debug.r_brk, for debuggers)
 * when its list of objects has changed: behind mapping, in front of the new
 * objects' constructors, and with its lock held, so that nothing here runs
 * twice at a time. That function is a bare ret, and ours runs in its place.
 *
 *  1. What is new in the list is planned by a twin of its own, as at the start, or
 *     was planned earlier (warm/warm.c). It adds to the table; counters go behind the
 *     old ones in every row.
 *  2. An object that may take the GS segment ends the counting, before any of its
 *     code has run. One that the twin has not looked at is looked at here.
 *  3. The arenas are mapped and the patches applied before we return, so that
 *     no instruction of the new objects has run.
 *  4. Who is not counted is noted in the table, with the reason (missed.c).
 * Other threads may run: they have no business in the new objects yet. Under a
 * seccomp filter system calls of ours may kill: then the objects are left.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>

#include "base/hooks.h"
#include "base/lock.h"
#include "base/mapped.h"
#include "base/own.h"
#include "base/pages.h"
#include "base/pieces.h"
#include "base/sandbox.h"
#include "base/state.h"
#include "base/tasks.h"
#include "plans/begin.h"
#include "plans/activate.h"
#include "plans/late.h"
#include "plans/look.h"
#include "plans/missed.h"
#include "rows/rowlist.h"
#include "sites/gs.h"
#include "sites/replaced.h"
#include "sites/slowpath.h"
#include "sites/transfers.h"
#include "stubs/keeper.h"
#include "stubs/redirect.h"
#include "table/allocs.h"
#include "table/audit.h"
#include "table/heat.h"
#include "table/awaited.h"
#include "table/chosen.h"
#include "table/regions.h"
#include "texts/hooked.h"
#include "texts/slots.h"
#include "texts/undos.h"

/* What is kept from the start, in private memory: a forked child has its own. */
static struct {
	struct r_debug *r_debug; /* 0: objects that come later are not seen */
	Elf64_auxv_t *auxv; /* copies: programs write over their environment */
	uint32_t vars_count;
	uint64_t vars_size;
	const char *vars; /* behind the vector */
	const char *table; /* path, behind them */
	int cache;         /* enum dp_cache */
	uint32_t user;     /* whose plans were good */
	int is_static;     /* its list begins when it loads something, with what was there before */
	uint64_t kernels;  /* where the kernel's object lies (AT_SYSINFO_EHDR) */
} kept;

/* ---- which objects are new --------------------------------------------- */

/* The dynamic sections of the objects that have been here, by hash; a power of two
 * of slots, half of them free at least. There are two: while one is made the other is whole, so
 * that a child which another thread forks meanwhile has one. */
enum { LEAST = 1024 }; /* slots */
struct set {
	const void **slots;
	uint64_t cap;
	const void *least[LEAST];
};

static struct {
	struct set of[2];
	uint32_t now; /* the one that is whole */
	uint32_t count;
	int blind; /* there was no memory for it: old and new cannot be told apart */
} known;

static const void **slot_of(const struct set *s, const void *dynamic)
{
	uint64_t i = ((uint64_t)dynamic >> 4) * 0x9e3779b97f4a7c15 >> 20; /* Knuth, 6.4 */
	for (i %= s->cap; s->slots[i] && s->slots[i] != dynamic; i = (i + 1) % s->cap)
		;
	return &s->slots[i];
}

static int is_known(const void *dynamic) { return *slot_of(&known.of[known.now], dynamic) != 0; }

/* Those that were here when there was nobody to plan them, as far as there is room. Somebody may
 * come, and then they are as new. */
static struct {
	const void *of[128];
	uint32_t count;
	int adds; /* they are, now */
} passed;

static int is_passed(const void *dynamic)
{
	for (uint32_t i = 0; i < passed.count; i++)
		if (passed.of[i] == dynamic)
			return 1;
	return 0;
}

static void pass_over(const void *dynamic)
{
	if (passed.count < sizeof passed.of / sizeof *passed.of && !is_passed(dynamic))
		passed.of[passed.count++] = dynamic;
}

/* A walk over the objects of all namespaces (dlmopen; link.h, struct
 * r_debug_extended). */
struct walk {
	const struct r_debug *r;
	const struct link_map *l;
};

static const struct r_debug *next_namespace(const struct r_debug *r)
{
	return r->r_version >= 2 ? (const struct r_debug *)((const struct r_debug_extended *)r)->r_next : 0;
}

static const struct link_map *next_object(struct walk *w)
{
	w->l = w->l ? w->l->l_next : 0;
	while (!w->l && (w->r = w->r ? next_namespace(w->r) : kept.r_debug))
		w->l = w->r->r_map;
	return w->l;
}

/* A static program has no dynamic section, or one that is in its list when that begins. */
static int is_of_start(const struct link_map *l)
{
	return !l->l_ld || (kept.is_static && (!l->l_name[0] || l->l_addr == kept.kernels));
}

static int is_loaded(uint64_t dynamic)
{
	for (struct walk w = {0, 0}; next_object(&w);)
		if ((uint64_t)w.l->l_ld == dynamic)
			return 1;
	return 0;
}

static const struct link_map *next_new(struct walk *w)
{
	while (next_object(w))
		if (is_of_start(w->l))
			continue;
		else if (!is_known(w->l->l_ld) || (passed.adds && is_passed(w->l->l_ld)))
			return w->l;
	return 0;
}

/* Room for n objects, none of which is in it yet. A child that is forked in between finds no
 * more slots than there are. */
static int room_for(struct set *s, uint64_t n)
{
	uint64_t had = s->cap, cap = had ? had : LEAST;
	const void **old = s->slots;
	while (cap < 2 * n)
		cap *= 2;
	if (cap == had) {
		for (uint64_t i = 0; i < cap; i++)
			s->slots[i] = 0;
		return 1;
	}
	if (cap == LEAST) {
		s->slots = s->least;
		s->cap = cap;
		return 1;
	}
	long at = ask(SYS_mmap, 0, pages(cap * sizeof *s->slots), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(at))
		return 0;
	dp_own((uint64_t)at, cap * sizeof *s->slots);
	__atomic_store_n(&s->slots, (const void **)at, __ATOMIC_RELEASE);
	__atomic_store_n(&s->cap, cap, __ATOMIC_RELEASE);
	if (had > LEAST) {
		dp_disown((uint64_t)old);
		ask(SYS_munmap, old, pages(had * sizeof *s->slots));
	}
	return 1;
}

static void know_all(void)
{
	uint64_t n = 0;
	for (struct walk w = {0, 0}; next_object(&w);)
		n++;
	known.count = (uint32_t)n;
	struct set *next = &known.of[!known.now];
	known.blind = !room_for(next, n);
	if (!known.blind) {
		for (struct walk w = {0, 0}; next_object(&w);)
			*slot_of(next, w.l->l_ld) = w.l->l_ld;
		__atomic_store_n(&known.now, !known.now, __ATOMIC_RELEASE);
	}
	uint32_t passed_on = 0; /* some may be unloaded */
	for (uint32_t i = 0; i < passed.count; i++)
		if (known.blind || is_known(passed.of[i]))
			passed.of[passed_on++] = passed.of[i];
	passed.count = passed_on;
}

/* ---- what later sessions need ------------------------------------------- */

/* Copies the auxiliary vector, the variables and the table's path. Returns 0 if there is no memory for
 * them. */
static int keep_start(const struct dp_ctl *ctl, const Elf64_auxv_t *auxv)
{
	uint64_t n = auxv_count(auxv), size = n * sizeof *auxv + text_len(ctl->table) + 1;
	for (uint32_t i = 0; i < ctl->vars_count; i++)
		size += text_len((const char *)ctl->vars[i]) + 1;
	kept.auxv = dp_zeros(size, 0);
	if (!kept.auxv)
		return 0;
	for (uint64_t i = 0; i < n; i++)
		kept.auxv[i] = auxv[i];
	char *to = (char *)(kept.auxv + n);
	kept.vars = to;
	for (uint32_t i = 0; i < ctl->vars_count; i++)
		to += text_copy(to, size, (const char *)ctl->vars[i]) + 1;
	kept.vars_size = (uint64_t)(to - kept.vars);
	kept.table = to;
	text_copy(to, size, ctl->table);
	return 1;
}

/* Whether no dynamic linker has started the program. */
static int is_static(const Elf64_auxv_t *auxv)
{
	const Elf64_Phdr *p = 0;
	uint64_t n = 0;
	for (const Elf64_auxv_t *a = auxv; a->a_type != AT_NULL; a++) {
		if (a->a_type == AT_PHDR)
			p = (const Elf64_Phdr *)a->a_un.a_val;
		if (a->a_type == AT_PHNUM)
			n = a->a_un.a_val;
	}
	for (uint64_t i = 0; p && i < n; i++)
		if (p[i].p_type == PT_INTERP)
			return 0;
	return p != 0;
}

const char *dp_keep(const struct dp_session *s, uint64_t r_debug)
{
	kept.r_debug = (struct r_debug *)r_debug;
	if (!r_debug)
		return 0;
	kept.is_static = is_static(s->auxv);
	if (kept.is_static)
		dp_linker_state = (const int *)&kept.r_debug->r_state;
	kept.vars_count = s->ctl->vars_count;
	kept.cache = s->cache;
	kept.user = (uint32_t)raw(SYS_geteuid);
	int have = keep_start(s->ctl, s->auxv);
	for (const Elf64_auxv_t *a = s->auxv; a->a_type != AT_NULL; a++)
		if (a->a_type == AT_SYSINFO_EHDR)
			kept.kernels = a->a_un.a_val;
	know_all();
	known.blind |= !have;
	return kept.table;
}

static const char *add_string(char **to, const char *text)
{
	char *at = *to;
	*to += text_copy(at, ~0ULL, text) + 1;
	return at;
}

static void fill_in(struct dp_ctl *ctl)
{
	ctl->pid = dp.pid;
	ctl->cold_entry = (uint64_t)&dp_cold;
	ctl->keep_entry = (uint64_t)&dp_keeper;
	ctl->record_entry = (uint64_t)&dp_record_access;
	ctl->allocator_entry = dp_allocs_entry();
	ctl->transfer_entry = dp_transfers_entry();
	ctl->site_entry = (uint64_t)&dp_kernel_site;
	ctl->signal_entry = (uint64_t)&dp_signal_site;
	ctl->late = 1;
	ctl->heat = dp_heat_how();
	ctl->granule = dp_heat_granule();
	ctl->bases = dp_has_bases(kept.auxv);
	ctl->audited = dp_audit_is();
	ctl->handles_traps = dp_handles_traps;
	ctl->shared = dp.shared;
	ctl->translator = (uint64_t)dp.translator;
	char *to = ctl->strings;
	for (const char *v = kept.vars; ctl->vars_count < kept.vars_count; v += text_len(v) + 1)
		ctl->vars[ctl->vars_count++] = (uint64_t)add_string(&to, v);
	for (struct walk w = {0, 0}; ctl->objects_count < ctl->objects_cap && next_new(&w);) {
		struct dp_object *o = &ctl->objects[ctl->objects_count++];
		o->bias = w.l->l_addr;
		o->low = o->high = o->dynamic = (uint64_t)w.l->l_ld; /* who plans it finds out the rest */
		o->name = (uint64_t)add_string(&to, w.l->l_name);
	}
}

/* ---- counting them ------------------------------------------------------- */

static int hold_at(struct dp_ctl *ctl, uint64_t at, uint64_t size)
{
	if (!dp_hold(at, size))
		return 0;
	ctl->held = at;
	ctl->held_size = size;
	return 1;
}

/* Takes address space below the objects, near them or further away, in which the
 * twin finds places for the arenas: other threads map memory meanwhile. The twin
 * looks elsewhere if there is none. */
static void hold_room(struct dp_session *s)
{
	enum { GUARD = 64 << 10, STRIDE = 16 << 20, REACH = 2000 << 20 }; /* somewhat less than in patcher/place */
	uint64_t size = pages(3 * copies_take(s) * s->text_size + (5 << 20)), high = ~0ULL;
	for (uint32_t i = 0; i < s->ctl->objects_count; i++)
		if (s->ctl->objects[i].bias && s->ctl->objects[i].bias < high)
			high = s->ctl->objects[i].bias;
	high &= ~(uint64_t)(DP_PAGE_SIZE - 1);
	uint64_t off = GUARD, most = size + REACH < high ? REACH : 0;
	while (off + size < most && !hold_at(s->ctl, high - off - size, size))
		off = off < STRIDE ? 2 * off : off + STRIDE;
}

/* The first arena from an address on; 0: there is none. */
static const struct dp_arena *next_arena(const struct dp_ctl *ctl, uint64_t from)
{
	const struct dp_arena *next = 0;
	for (uint32_t i = 0; i < ctl->arenas_count; i++)
		if (ctl->arenas[i].at >= from && (!next || ctl->arenas[i].at < next->at))
			next = &ctl->arenas[i];
	return next;
}

/* Lets go of what arenas are not in: in front of them, as they are taken from the end, and
 * behind such that became smaller than they might have been. */
static void let_go(const struct dp_ctl *ctl, int planned)
{
	uint64_t from = ctl->held, end = from + ctl->held_size;
	while (from < end) {
		const struct dp_arena *a = planned ? next_arena(ctl, from) : 0;
		uint64_t to = a && a->at < end ? a->at : end;
		if (from < to)
			raw(SYS_munmap, from, to - from);
		from = to < end ? to + a->size + a->pointers + a->view_size : end;
	}
}

static void prepare(struct dp_session *s)
{
	fill_in(s->ctl);
	hold_room(s);
}

static const char *grow_rows(void *arg)
{
	if (dp_hooks.waits && dp_hooks.waits(arg))
		return "a thread makes a system call that must be known of";
	return dp_rows_grow(dp.table->counters) ? 0 : "no room for the counts of the threads";
}

static void leave_rows(void *unused) { (void)unused; } /* larger than they need to be */

/* Whether plans of earlier loads may do. Other threads could map memory where arenas have
 * to lie, and to read what is mapped takes longer than a planner where it is much. */
static int may_be_warm(const struct dp_session *s)
{
	enum { MANY = 256 };
	return s->cache && !dp.shared && !dp.translator && !dp.reserve && !dp_locks_new() && s->listed <= MANY && dp_single_threaded();
}

/* Without a planner. Nothing is there if it cannot be done. */
static int find_planned(struct dp_session *s)
{
	if (!may_be_warm(s))
		return 0;
	if (!dp_hooks.map_scratch(s))
		return 0;
	fill_in(s->ctl);
	if (dp_hooks.start_warm(s->ctl))
		return 1;
	dp_hooks.unmap_scratch(s);
	return 0;
}

/* Why the last plan did not come into force; 0: it did. */
static const char *failed_by;

/* Plans the new objects and applies the plan. Reports whether it could. */
static int count_new(struct dp_session *s)
{
	long twin = 0;
	int reaped = 1; /* nobody is there */
	struct dp_room rows = {grow_rows, leave_rows, 0, dp.table->functions.count};
	if (find_planned(s)) {
		rows.arg = s->ctl;
		failed_by = dp_activate(s->ctl, &rows);
		return !failed_by;
	}
	failed_by = dp_hooks.plan(s, prepare, &twin, &reaped);
	if (!s->ctl)
		return 0;
	rows.arg = s->ctl;
	int planned = !failed_by;
	if (s->ctl->stop)
		dp_stop(); /* whether the rest can be done or not */
	let_go(s->ctl, planned);
	if (planned)
		failed_by = dp_activate(s->ctl, &rows);
	dp_hooks.finish_late(s, twin, reaped, planned);
	return !failed_by;
}

/* Whom the twin could not plan although it planned others. */
static void note_missed(const struct dp_ctl *ctl)
{
	for (uint32_t i = 0; i < ctl->objects_count; i++)
		if (ctl->objects[i].missed)
			dp_miss((const char *)ctl->objects[i].name, (uint32_t)ctl->objects[i].missed);
}

/* Nobody is planned, for that reason if there is one: what the twin has not seen
 * may take GS. */
static void look_at_new(uint32_t reason)
{
	uint32_t ends = 0;
	int careful = reason != DP_MISSED_NO_PLANNER;
	for (struct walk w = {0, 0}; next_new(&w);) {
		uint32_t gs = dp.shared ? 0 : dp_gs_of(w.l, careful);
		if (gs || reason)
			dp_miss(w.l->l_name, gs ? gs : reason);
		if (!gs && reason == DP_MISSED_NO_PLANNER)
			pass_over(w.l->l_ld);
		ends |= gs;
	}
	if (ends)
		dp_stop();
}

/* A program that is somebody else for a while, or keeps rights that he has not, does not run
 * what he has put into his plans. */
static int may_cache(void)
{
	uint32_t real, effective, saved;
	int known = kept.cache && raw(SYS_getresuid, &real, &effective, &saved) == 0;
	return known && real == kept.user && effective == kept.user && saved == kept.user ? kept.cache : DP_CACHE_OFF;
}

static void meet(struct dp_session *s)
{
	uint64_t all = dp_to_block(), mask;
	if (dp_own_objects || dp_sandboxed()) {
		if (!passed.adds)
			look_at_new(dp_own_objects ? 0 : DP_MISSED_SANDBOXED);
		failed_by = "a seccomp filter is in force";
		return;
	}
	s->cache = may_cache();
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, 8);
	dp_audit_rest();
	if (count_new(s)) {
		note_missed(s->ctl);
		for (uint32_t i = 0; dp_regions_are() && i < s->ctl->objects_count; i++)
			dp_extent_of(&s->ctl->objects[i]);
		dp_regions_late(s->ctl);
		dp_awaited_count(0, 0);
	} else if (!passed.adds) /* else that was done */
		look_at_new(DP_MISSED_NO_PLANNER);
	dp_audit_tell();
	if (dp_stopped())
		dp_stop(); /* by another process, meanwhile: the new stubs, too */
	dp_hooks.unmap_scratch(s);
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
}

/* Nobody can say any more who is new: what comes from now on may take GS. */
static void meet_blindly(void)
{
	dp_miss("?", DP_MISSED_NO_MEMORY);
	if (!dp.shared)
		dp_stop();
}

/* Counting has ended. What this process has mapped for itself after a fork, he who
 * ended it could not reach. */
static void end_here(void)
{
	static int ended;
	if (!ended && !dp.shared)
		dp_stop();
	ended = 1;
}

/* Whether there is what refers to texts, beside their session. */
static int refers(const struct dp_undo_text *first, uint64_t count) { return dp_is_listed(first, count) || dp_has_slots(first, count); }

static void meet_all(void)
{
	struct dp_session s = {.auxv = kept.auxv, .vars = kept.vars_count, .strings = kept.vars_size, .listed = known.count, .blocks = dp.table->blocks.offset || dp.table->sites.offset, .touches = dp_heat_how() != 0, .hot = (dp.table->flags & DP_FLAG_SWITCHED) != 0};
	for (struct walk w = {0, 0}; next_new(&w); s.objects++) {
		s.text_size += dp_text_of(w.l);
		s.strings += text_len(w.l->l_name) + 1;
	}
	if (s.objects)
		meet(&s);
	else
		dp_forget_undos(refers);
	know_all();
}

int dp_meets HIDDEN;
const char dp_loads[] HIDDEN = "a thread loads a library";

static void met_new(void)
{
	dp_hooks.objects_gone();
	if (!kept.r_debug || kept.r_debug->r_state != RT_CONSISTENT)
		return;
	if (dp_stopped()) {
		end_here();
		return;
	}
	dp_awaited_pass(is_loaded);
	dp_regions_pass(is_loaded);
	if (known.blind) {
		meet_blindly();
		return;
	}
	meet_all();
}

/* With clean flags, from changed.S. */
void dp_new_objects(void)
{
	if (dp_withdrawn)
		return;
	__atomic_store_n(&dp_meets, 1, __ATOMIC_RELEASE);
	met_new();
	__atomic_store_n(&dp_meets, 0, __ATOMIC_RELEASE);
}

uint32_t dp_add_passed(const char **why)
{
	uint32_t before = passed.count;
	*why = 0;
	if (dp_withdrawn || dp_stopped() || !kept.r_debug || known.blind)
		*why = "nothing is counted any more";
	else if (kept.r_debug->r_state != RT_CONSISTENT || __atomic_load_n(&dp_meets, __ATOMIC_ACQUIRE))
		*why = dp_loads;
	if (*why || !before)
		return 0;
	passed.adds = 1;
	failed_by = 0;
	meet_all();
	passed.adds = 0;
	*why = failed_by;
	if (*why)
		return 0;
	passed.count = 0;
	return before;
}
