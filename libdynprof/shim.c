/* The constructor: what happens in the target before its main.
 *
 * No Go code runs here. The Go runtime's start entry lies outside DT_INIT_ARRAY
 * (goinit.ld), so that loading the library starts nothing; a copy of this
 * process, the twin, starts it by hand, plans, and is gone before main.
 *
 *  1. The environment loses our entries.
 *  2. Shared memory is mapped: the control block, and the reserve whose pages
 *     become the arenas.
 *  3. The twin is made; it writes the table, the stubs and the list of changes. Or, where
 *     earlier starts have left plans of all objects, that is made of them here.
 *  4. The arenas are mapped where the stubs will run, the table is mapped,
 *     this thread gets row 0.
 *  5. The patches are applied; the twin is reaped; all scratch memory goes.
 * Whatever fails, the program runs as it would have without us, and one line
 * on stderr says why nothing is counted.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include "base/cpu.h"
#include "base/hooks.h"
#include "base/pages.h"
#include "base/state.h"
#include "base/tasks.h"
#include "emulator.h"
#include "events/ring.h"
#include "outsider.h"
#include "plans/activate.h"
#include "plans/begin.h"
#include "plans/late.h"
#include "plugin.h"
#include "session.h"
#include "signals/handlers.h"
#include "signals/signals.h"
#include "sites/slowpath.h"
#include "sites/successor.h"
#include "sites/transfers.h"
#include "stubs/keeper.h"
#include "stubs/redirect.h"
#include "rows/space.h"
#include "table/audit.h"
#include "table/heat.h"
#include "table/awaited.h"
#include "table/chosen.h"
#include "table/regions.h"
#include "table/allocs.h"
#include "translator.h"
#include "warm/choice.h"
#include "warm/warm.h"
#include "wanted.h"

/* What the constructor works with; gone before main. */
struct start {
	struct dp_session session;
	char **argv, **envp;
	const char *program;
	const char *self; /* our name in the link map */
	const char *added; /* what hotspots run put into LD_PRELOAD besides us */
	const char *plugin; /* file of the translator */
	const char *heat; /* file of the shadow */
	const char *region; /* regions that were chosen outside */
	int regions; /* the shadow says where regions are */
	int allocs;  /* blocks of malloc are noted behind it */
	const char *note; /* file in which hotspots run looks for why nothing is counted */
	uint64_t tls_size;
	uint64_t r_debug; /* struct r_debug *, 0 if it is not known */
	int follow_exec, follow_self;
	int strict; /* hotspots run --strict: end a program that cannot be counted */
	int only_cache; /* hotspots cache warm: end it when its plans are kept */
};

static uint64_t aux(const struct start *s, uint64_t type) { return dp_aux(s->session.auxv, type); }

/* Writes without a signal: a broken pipe, a file-size limit or a terminal that
 * stops background writers would end or stop the program. What the write made
 * pending is taken back, unless it was pending before. */
static void write_quietly(long fd, const char *text, size_t n)
{
	uint64_t set = 0, old, before = 0, after = 0;
	static const int signals[] = {SIGPIPE, SIGXFSZ, SIGTTOU};
	for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
		set |= 1ULL << (signals[i] - 1);
	if (raw(SYS_rt_sigprocmask, SIG_BLOCK, &set, &old, 8) != 0)
		return;
	raw(SYS_rt_sigpending, &before, 8);
	raw(SYS_write, fd, text, n);
	raw(SYS_rt_sigpending, &after, 8);
	struct timespec none = {0, 0};
	uint64_t ours = set & after & ~before;
	if (ours)
		raw(SYS_rt_sigtimedwait, &ours, 0, &none, 8);
	raw(SYS_rt_sigprocmask, SIG_SETMASK, &old, 0, 8);
}

/* One line on stderr: "dynprof: PROGRAM" and the two. */
static void say(const struct start *s, const char *what, const char *why)
{
	char line[DP_LINE_MAX + 256];
	size_t n = text_copy(line, sizeof line, "dynprof: ");
	n += text_copy(line + n, 200, s->program ? s->program : "?");
	n += text_copy(line + n, sizeof line - n, what);
	n += text_copy(line + n, sizeof line - n - 1, why);
	for (size_t i = 0; i < n; i++)
		if ((uint8_t)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?'; /* names can hold anything */
	line[n++] = '\n';
	write_quietly(2, line, n);
}

/* Says so, and tells hotspots run that it has been said. */
static void not_counted(const struct start *s, const char *why)
{
	say(s, ": not counted: ", why);
	if (!s->note)
		return;
	long fd = raw(SYS_openat, AT_FDCWD, s->note, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (failed(fd))
		return;
	write_quietly(fd, why, text_len(why));
	raw(SYS_close, fd);
}

/* ---- environment ------------------------------------------------------ */

static int is_separator(char c) { return c == ' ' || c == ':'; }

/* Whether the LD_PRELOAD entry of length n is this library. The dynamic linker
 * keeps a name with a slash as it was given; one without it searched for. */
static int is_self(const struct start *s, const char *entry, size_t n)
{
	const char *name = s->self;
	int slash = 0;
	for (size_t i = 0; i < n; i++)
		slash |= entry[i] == '/';
	if (!slash)
		for (const char *p = name; *p; p++)
			if (*p == '/')
				name = p + 1;
	return text_len(name) == n && same_bytes(entry, name, n);
}

/* Whether hotspots run put that entry there (a sanitizer's run-time library). */
static int is_added(const struct start *s, const char *entry, size_t n)
{
	const char *p = s->added;
	while (p && *p) {
		size_t k = 0;
		while (p[k] && p[k] != ':')
			k++;
		if (k == n && same_bytes(entry, p, n))
			return 1;
		p += k + (p[k] == ':');
	}
	return 0;
}

/* Takes our entries out of LD_PRELOAD's value, in place. Reports whether
 * anything is left. */
static int strip_preload(const struct start *s, char *value)
{
	char *out = value;
	for (char *p = value; *p;) {
		char *entry = p;
		while (*p && !is_separator(*p))
			p++;
		size_t n = (size_t)(p - entry);
		char separator = *p;
		if (*p)
			p++;
		if (n == 0 || is_self(s, entry, n) || is_added(s, entry, n))
			continue;
		if (out != value)
			*out++ = separator == ' ' ? ' ' : ':';
		for (size_t i = 0; i < n; i++)
			*out++ = entry[i];
	}
	*out = 0;
	return out != value;
}

/* Ends the environment at out. Programs, those in Go among them, look for the
 * auxiliary vector right behind it: what is free in between reads as entries to
 * ignore or, where only half an entry is left, as an empty vector, for which they
 * have another source. The vector itself stays where the C library knows it. */
static void bridge(char **out, char **auxv)
{
	int whole = (auxv - out) % 2 == 1; /* besides the NULL */
	for (*out++ = 0; out < auxv; out += whole ? 2 : 1) {
		*out = 0;
		if (whole) {
			((Elf64_auxv_t *)out)->a_type = AT_IGNORE;
			((Elf64_auxv_t *)out)->a_un.a_val = 0;
		}
	}
}

/* Whether a variable tells where files of ours may be. */
static int is_place(const char *entry)
{
	return has_prefix(entry, "XDG_RUNTIME_DIR=") || has_prefix(entry, "XDG_CACHE_HOME=") || has_prefix(entry, "HOME=");
}

/* Remembers our variables for the twin and, unless exec is followed, takes
 * them out of the array that libc's environ is going to be. */
static void take_environment(struct start *s)
{
	struct dp_ctl *ctl = s->session.ctl;
	char **out = s->envp;
	if (s->follow_exec)
		dp_successors_followed();
	else if (s->follow_self && ctl)
		dp_successor_keep(s->envp, s->added, s->self);
	for (char **e = s->envp; *e; e++) {
		int ours = has_prefix(*e, "DYNPROF_");
		if ((ours || is_place(*e)) && ctl && ctl->vars_count < ctl->vars_cap)
			ctl->vars[ctl->vars_count++] = (uint64_t)*e;
		if (!s->follow_exec && (ours || (has_prefix(*e, "LD_PRELOAD=") && !strip_preload(s, *e + 11))))
			continue;
		*out++ = *e;
	}
	bridge(out, (char **)s->session.auxv);
}

/* What an entry gives the variable of that name; 0 if it is another's. */
static const char *value_of(const char *entry, const char *name)
{
	while (*name && *entry == *name)
		entry++, name++;
	return !*name && *entry == '=' ? entry + 1 : 0;
}

static void read_environment(struct start *s)
{
	const char *v;
	char **e = s->envp;
	s->session.cache = DP_CACHE_USE;
	for (; *e; e++) {
		s->session.vars++;
		if ((v = value_of(*e, "DYNPROF_FOLLOW_EXEC")))
			s->follow_exec = dp_is_on(v);
		else if ((v = value_of(*e, "DYNPROF_FOLLOW_SELF")))
			s->follow_self = dp_is_on(v);
		else if ((v = value_of(*e, "DYNPROF_CONTROL")))
			s->session.keep |= dp_is_on(v);
		else if ((v = value_of(*e, "DYNPROF_OVERHEAD")))
			s->session.keep |= *v != 0, s->session.blocks |= *v != 0;
		else if ((v = value_of(*e, "DYNPROF_CACHE"))) {
			s->session.cache = !*v ? DP_CACHE_USE : dp_is_on(v) ? DP_CACHE_KEEP : DP_CACHE_OFF;
			s->only_cache = same_text(v, "only") || has_prefix(v, "only:");
		}
		else if ((v = value_of(*e, "DYNPROF_LISTEN")))
			s->session.listen = *v != 0;
		else if ((v = value_of(*e, "DYNPROF_BLOCKS")) || (v = value_of(*e, "DYNPROF_EDGES")) || (v = value_of(*e, "DYNPROF_TRIPS")) || (v = value_of(*e, "DYNPROF_BLOCKS_OF")))
			s->session.blocks |= dp_is_on(v), s->session.hot |= same_text(v, "hot");
		else if ((v = value_of(*e, "DYNPROF_HEAT")))
			s->heat = v, s->session.touches |= *v != 0, s->session.blocks |= *v != 0;
		else if ((v = value_of(*e, "DYNPROF_ALLOCS")))
			s->allocs = dp_is_on(v);
		else if ((v = value_of(*e, "DYNPROF_REGIONS")))
			s->regions = dp_is_on(v), s->session.touches |= s->regions;
		else if ((v = value_of(*e, "DYNPROF_REGION")))
			s->region = v;
		else if ((v = value_of(*e, "DYNPROF_TRANSLATOR")))
			s->plugin = v;
		else if ((v = value_of(*e, "DYNPROF_STRICT")))
			s->strict = dp_is_on(v);
		else if ((v = value_of(*e, "DYNPROF_PRELOADED")))
			s->added = v;
		else if ((v = value_of(*e, "DYNPROF_NOTE")))
			s->note = v;
	}
	s->session.translator = s->plugin && *s->plugin;
	s->session.auxv = (Elf64_auxv_t *)(e + 1);
}

/* ---- what is loaded --------------------------------------------------- */

/* Where the executable's DT_DEBUG leads: the dynamic linker's list of objects
 * (gABI, "Dynamic Section"). */
static uint64_t find_r_debug(const struct dl_phdr_info *info)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
			continue;
		const Elf64_Dyn *d = (const Elf64_Dyn *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
		for (; d->d_tag != DT_NULL; d++)
			if (d->d_tag == DT_DEBUG)
				return d->d_un.d_ptr;
	}
	return 0;
}

/* The dynamic linker's own, for an executable that has no DT_DEBUG. */
extern struct r_debug _r_debug __attribute__((weak));

static int note_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct start *s = arg;
	uint64_t here = (uint64_t)&note_object, low = ~0ULL, high = 0;
	int self = 0;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *p = &info->dlpi_phdr[i];
		if (p->p_type == PT_TLS)
			s->tls_size += p->p_memsz + p->p_align;
		if (p->p_type != PT_LOAD)
			continue;
		uint64_t at = info->dlpi_addr + p->p_vaddr;
		if (at < low)
			low = at;
		if (at + p->p_memsz > high)
			high = at + p->p_memsz;
		if (p->p_flags & PF_X)
			s->session.text_size += dp_pages_of(p);
		self |= here >= at && here < at + p->p_memsz;
	}
	s->session.translator |= dp_has_translator(info);
	if (!s->r_debug)
		s->r_debug = find_r_debug(info); /* of the executable, which comes first */
	if (self)
		s->self = info->dlpi_name;
	struct dp_ctl *ctl = s->session.ctl;
	if (!ctl) {
		s->session.objects++;
		return 0; /* the first pass only measures */
	}
	if (low == aux(s, AT_SYSINFO_EHDR) || ctl->objects_count == ctl->objects_cap)
		return 0;
	struct dp_object *o = &ctl->objects[ctl->objects_count++];
	o->bias = info->dlpi_addr;
	o->low = low;
	o->high = high;
	o->name = (uint64_t)info->dlpi_name;
	o->self = (uint64_t)self;
	return 0;
}

/* The dynamic linker's list, as the executable's own headers lead to it. */
static const struct r_debug *list_of_objects(const struct start *s)
{
	struct dl_phdr_info exe = {.dlpi_phdr = (const Elf64_Phdr *)aux(s, AT_PHDR), .dlpi_phnum = (Elf64_Half)aux(s, AT_PHNUM)};
	uint64_t r = 0;
	for (int i = 0; exe.dlpi_phdr && i < exe.dlpi_phnum; i++)
		if (exe.dlpi_phdr[i].p_type == PT_PHDR) {
			exe.dlpi_addr = (uint64_t)exe.dlpi_phdr - exe.dlpi_phdr[i].p_vaddr;
			r = find_r_debug(&exe);
		}
	return r ? (const struct r_debug *)r : &_r_debug;
}

/* Whether the heap goes on where the executable's file ends, which then holds the heap
 * as it once was: Lisp systems that write themselves to a file. In others .bss is
 * behind, of which the file has nothing. */
static int heap_is_dumped(const struct start *s)
{
	const Elf64_Phdr *p = (const Elf64_Phdr *)aux(s, AT_PHDR), *last = 0;
	for (uint64_t i = 0, n = aux(s, AT_PHNUM); p && i < n; i++)
		if (p[i].p_type == PT_LOAD)
			last = &p[i];
	return last && (last->p_flags & PF_W) && last->p_filesz == last->p_memsz;
}

static void note_objects(struct start *s)
{
	dp_libc_iterate(list_of_objects(s))(note_object, s);
}

/* ---- applying the plan ------------------------------------------------ */

/* Whether threads may find their rows by GS: nobody has set it, and we may. */
static int gs_is_free(void)
{
	uint64_t base = 0;
	return raw(SYS_arch_prctl, ARCH_GET_GS, &base) == 0 && base == 0 && raw(SYS_arch_prctl, ARCH_SET_GS, 0) == 0;
}

static const char *apply(struct start *s)
{
	struct dp_ctl *ctl = s->session.ctl;
	struct dp_begin begin = {ctl->table, ctl->nonce, s->session.auxv, -1};
	struct dp_room rows = {dp_begin, dp_take_begin_back, &begin, 0};
	const char *why = 0;
	if (ctl->heap_to && !dp_lift_heap(ctl, list_of_objects(s)))
		why = "its heap cannot be moved out of the way";
	if (!why)
		why = dp_activate(ctl, &rows);
	if (why) {
		raw(SYS_unlinkat, AT_FDCWD, ctl->table, 0);
		return why;
	}
	if (ctl->keep) {
		raw(SYS_madvise, ctl->reserve, ctl->reserve_size, MADV_DONTDUMP); /* the arenas show what is in it */
		dp.reserve = (uint8_t *)ctl->reserve;
		dp.reserve_size = ctl->reserve_size;
	}
	dp_take_handlers();
	dp_heat_of(dp.table->nonce);
	__atomic_store_n(&dp.table->state, DP_STATE_LIVE, __ATOMIC_RELEASE);
	return 0;
}

static void choose_regions(const struct start *s)
{
	struct dp_unmade u = {0};
	dp_regions_choose(s->region, s->session.ctl, &u);
	if (u.absent[0])
		say(s, ": not loaded yet, their regions begin when they are: ", u.absent);
	if (u.others[0])
		say(s, ": these regions are of a program that ran before in its place: ", u.others);
	if (u.impossible[0])
		say(s, ": these regions cannot be made (docs/regions.md): ", u.impossible);
}

static void count_awaited(const struct start *s)
{
	char uncounted[512] = "";
	dp_awaited_count(uncounted, sizeof uncounted);
	if (uncounted[0])
		say(s, ": regions whose function is not counted, so they do not begin (hotspots coverage says why): ", uncounted);
}

/* How touched pages can be noted; if they cannot, that is said. */
static uint64_t begin_heat(const struct start *s)
{
	const char *why = 0;
	if (s->heat && *s->heat)
		why = dp_heat_begin(s->heat, s->regions ? DP_REGIONS : s->allocs ? DP_BLOCKS : DP_NOTHING, dp_wanted_place(dp_libc_iterate(list_of_objects(s))));
	if (why && *why)
		say(s, s->regions ? ": accesses are not recorded: " : ": touched memory is not noted: ", why);
	else if (!why && s->regions && s->region)
		choose_regions(s);
	else if (!why && s->allocs && dp_heat_how() != DP_HEAT_NONE && !dp_allocs_entry())
		say(s, ": blocks of malloc are not noted: ", "the kernel has no memory that forks leave out");
	return dp_heat_how();
}

static void answer(void)
{
	dp_hooks = (struct dp_hooks){
		.tell = dp_tell,
		.objects_gone = dp_objects_gone,
		.forked = dp_translator_forked,
		.start_warm = dp_warm_late,
		.plan = dp_plan_late,
		.finish_late = dp_finish_late,
		.map_scratch = dp_map_scratch,
		.unmap_scratch = dp_unmap_scratch,
	};
}

/* With a twin. */
static const char *plan(struct start *s)
{
	long twin = 0;
	int reaped = 1;
	const char *why = dp_run_twin(&s->session, &twin, &reaped), *unkept = 0;
	int planned = !why;
	if (planned)
		why = apply(s); /* while the twin tears its memory down */
	if (!why && s->session.cache == DP_CACHE_KEEP && !s->session.keep && !s->session.listen)
		unkept = dp_await_saved(s->session.ctl, twin, &reaped);
	if (unkept)
		say(s, ": plans are not kept for later starts: ", unkept);
	dp_finish_twin(twin, reaped, planned);
	return why;
}

static const char *count(struct start *s)
{
	if (dp_in_valgrind())
		return "it runs in valgrind";
	if (!dp_single_threaded())
		return dp_in_qemu() ? "it runs in an emulator (qemu-user)" : "another library started threads before us";
	if (!dp_map_scratch(&s->session))
		return "no address space (ulimit -v?)";
	take_environment(s);
	note_objects(s);
	answer();
	if (s->session.translator)
		dp_cpu(); /* while it may be asked */
	s->session.ctl->heat = begin_heat(s);
	s->session.ctl->granule = dp_heat_granule();
	s->session.ctl->bases = dp_has_bases(s->session.auxv);
	s->session.ctl->audited = dp_audit_is();
	s->session.ctl->shows = s->note && !s->follow_exec;
	s->session.ctl->shared = !gs_is_free();
	s->session.ctl->short_space = dp_space_is_short();
	dp_space_begin();
	s->session.ctl->heap_end = heap_is_dumped(s) ? 0 : dp_heap_end(list_of_objects(s));
	s->session.ctl->cold_entry = (uint64_t)&dp_cold;
	s->session.ctl->keep_entry = (uint64_t)&dp_keeper;
	s->session.ctl->record_entry = (uint64_t)&dp_record_access;
	s->session.ctl->allocator_entry = dp_allocs_entry();
	s->session.ctl->transfer_entry = dp_transfers_entry();
	s->session.ctl->site_entry = (uint64_t)&dp_kernel_site;
	s->session.ctl->translator = (uint64_t)s->session.translator;
	s->session.ctl->argv = (uint64_t)s->argv;
	s->session.ctl->signal_entry = (uint64_t)&dp_signal_site;
	s->session.ctl->changed_entry = (uint64_t)&dp_objects_changed;
	if (!s->r_debug)
		s->r_debug = (uint64_t)&_r_debug;
	if (s->r_debug)
		s->session.ctl->r_brk = ((const struct r_debug *)s->r_debug)->r_brk;
	const char *why = dp_warm_start(s->session.ctl) ? apply(s) : plan(s);
	if (!why) {
		count_awaited(s);
		const char *table = dp_keep(&s->session, s->r_debug);
		if (table)
			dp_outsider_keep((const struct r_debug *)s->r_debug, table);
		if (dp.translator)
			dp_ring_begin();
		dp_plan_plugin(s->plugin, aux(s, AT_ENTRY));
	}
	return why;
}

/* What is only in glibc: musl gives constructors no arguments, and its dynamic
 * linker takes itself for our libc.so.6. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));
extern char **environ __attribute__((weak));

/* Ends a program that was started for its plans, whose table says that it did not run, or
 * that is not to run uncounted. */
static void end_if_asked(const struct start *s, const char *why)
{
	if (s->only_cache || (why && s->strict))
		raw(SYS_exit_group, why ? 125 : 0);
}

static void leave_other_libc(void)
{
	struct start s = {.envp = &environ ? environ : 0, .self = ""};
	if (!s.envp)
		return;
	read_environment(&s);
	if (aux(&s, AT_SECURE))
		return;
	s.program = (const char *)aux(&s, AT_EXECFN);
	note_objects(&s);
	take_environment(&s);
	if (dynprof_here)
		return; /* it is counted from outside */
	not_counted(&s, "it does not use glibc");
	end_if_asked(&s, "");
}

__attribute__((constructor)) static void start(int argc, char **argv, char **envp)
{
	if (!gnu_get_libc_version) {
		leave_other_libc();
		return;
	}
	if (*envp && has_prefix(*envp, DP_OUT_VARIABLE))
		return; /* a planner */
	struct start s = {.argv = argv, .envp = envp, .program = argc > 0 ? argv[0] : 0, .self = ""};
	read_environment(&s);
	if (aux(&s, AT_SECURE))
		return;
	note_objects(&s);
	if (dp_another_counts(list_of_objects(&s))) { /* its jumps are no code to plan with */
		take_environment(&s);
		return;
	}
	dp_note_tls(s.tls_size);
	const char *why = count(&s);
	if (!s.session.ctl)
		take_environment(&s);
	else if (why)
		s.session.ctl->keep = 0;
	if (why) {
		dp_heat_take_back();
		not_counted(&s, why);
	} else if (s.session.ctl->remark[0])
		say(&s, ": ", s.session.ctl->remark);
	end_if_asked(&s, why);
	dp_unmap_scratch(&s.session);
	dp_audit_tell(); /* of regions that were chosen outside */
}
