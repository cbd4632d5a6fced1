/* Objects that are loaded later, by dlopen.
 *
 * The dynamic linker calls a function of its own (r_debug.r_brk, for debuggers)
 * when its list of objects has changed: behind mapping, in front of the new
 * objects' constructors, and with its lock held, so that nothing here runs
 * twice at a time. That function is a bare ret, and ours runs in its place.
 *
 *  1. What is new in the list is planned by a twin of its own, as at the start.
 *     It adds to the table; counters go behind the old ones in every row.
 *  2. The arenas are mapped and the patches applied before we return, so that
 *     no instruction of the new objects has run.
 * Other threads may run: they have no business in the new objects yet. Under a
 * seccomp filter system calls of ours may kill: then the objects are left, and
 * the table says so.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>

#include "filters.h"
#include "gs.h"
#include "redirect.h"
#include "rowlist.h"
#include "session.h"
#include "signals.h"
#include "state.h"
#include "translator.h"

enum { KEPT_VARS = 16 << 10, KEPT_AUXV = 64, KEPT_OBJECTS = 4096 };

/* What is kept from the start, in private memory: a forked child has its own. */
struct kept {
	struct r_debug *r_debug;
	char table[DP_PATH_MAX];
	uint8_t nonce[16];
	Elf64_auxv_t auxv[KEPT_AUXV];
	char vars[KEPT_VARS]; /* copies: programs write over their environment */
	uint32_t vars_len;
	uint32_t known;
	const void *objects[KEPT_OBJECTS]; /* their dynamic sections */
};

static struct kept *kept;
int dp_own_objects HIDDEN;

static int is_known(const void *dynamic)
{
	for (uint32_t i = 0; i < kept->known; i++)
		if (kept->objects[i] == dynamic)
			return 1;
	return 0;
}

/* The lists of all namespaces (dlmopen; link.h, struct r_debug_extended). */
static const struct link_map *first_of(uint32_t nth)
{
	const struct r_debug *r = kept->r_debug;
	for (; nth > 0 && r; nth--)
		r = r->r_version >= 2 ? (const struct r_debug *)((const struct r_debug_extended *)r)->r_next : 0;
	return r ? r->r_map : 0;
}

enum { NAMESPACES = 32 };

static void know_all(void)
{
	kept->known = 0;
	for (uint32_t n = 0; n < NAMESPACES; n++)
		for (const struct link_map *l = first_of(n); l && kept->known < KEPT_OBJECTS; l = l->l_next)
			kept->objects[kept->known++] = l->l_ld;
}

void dp_keep(const struct dp_session *s, uint64_t r_debug)
{
	if (!r_debug)
		return;
	long at = raw(SYS_mmap, 0, pages(sizeof *kept), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(at))
		return;
	struct kept *k = (struct kept *)at;
	k->r_debug = (struct r_debug *)r_debug;
	text_copy(k->table, sizeof k->table, s->ctl->table);
	for (int i = 0; i < 16; i++)
		k->nonce[i] = s->ctl->nonce[i];
	for (int i = 0; i < KEPT_AUXV - 1 && s->auxv[i].a_type != AT_NULL; i++)
		k->auxv[i] = s->auxv[i];
	for (uint32_t i = 0; i < s->ctl->vars_count; i++) {
		const char *v = (const char *)s->ctl->vars[i];
		uint64_t n = text_len(v) + 1;
		if (k->vars_len + n > KEPT_VARS)
			continue;
		text_copy(k->vars + k->vars_len, n, v);
		k->vars_len += (uint32_t)n;
	}
	kept = k;
	know_all();
}

/* Bytes of code of an object, from its ELF header if that is mapped at its
 * base, as it is in every library that ld made; else a guess. */
static uint64_t text_of(const struct link_map *l)
{
	enum { GUESS = 64 << 20, MOST = 64 };
	uint8_t resident;
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)l->l_addr;
	if (l->l_addr % DP_PAGE_SIZE || raw(SYS_mincore, eh, DP_PAGE_SIZE, &resident) != 0 ||
	    !same_bytes(eh->e_ident, ELFMAG, SELFMAG) || eh->e_phnum > MOST ||
	    eh->e_phoff > DP_PAGE_SIZE - MOST * sizeof(Elf64_Phdr))
		return GUESS;
	const Elf64_Phdr *ph = (const Elf64_Phdr *)((const uint8_t *)eh + eh->e_phoff);
	uint64_t text = 0;
	for (int i = 0; i < eh->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD && (ph[i].p_flags & PF_X))
			text += ph[i].p_memsz;
	return text;
}

static void fill_in(struct dp_ctl *ctl)
{
	ctl->pid = dp.pid;
	ctl->cold_entry = (uint64_t)&dp_cold;
	ctl->site_entry = (uint64_t)&dp_kernel_site;
	ctl->signal_entry = (uint64_t)&dp_signal_site;
	ctl->late = 1;
	ctl->handles_traps = dp_handles_traps;
	ctl->shared = dp.shared;
	ctl->translator = (uint64_t)dp.translator;
	text_copy(ctl->table, sizeof ctl->table, kept->table);
	for (int i = 0; i < 16; i++)
		ctl->nonce[i] = kept->nonce[i];
	for (uint32_t at = 0; at < kept->vars_len && ctl->vars_count < DP_MAX_VARS;) {
		ctl->vars[ctl->vars_count++] = (uint64_t)(kept->vars + at);
		at += (uint32_t)text_len(kept->vars + at) + 1;
	}
	for (uint32_t n = 0; n < NAMESPACES; n++)
		for (const struct link_map *l = first_of(n); l; l = l->l_next) {
			if (is_known(l->l_ld))
				continue;
			if (ctl->objects_count == DP_MAX_OBJECTS) {
				ctl->objects_lost++;
				continue;
			}
			struct dp_object *o = &ctl->objects[ctl->objects_count++];
			o->bias = l->l_addr;
			o->low = o->high = (uint64_t)l->l_ld; /* the twin finds out the rest */
			o->name = (uint64_t)l->l_name;
		}
}

/* Plans the new objects and applies the plan. Reports whether it could. */
static int count_new(struct dp_session *s)
{
	/* Without room in the reserve that is kept they get one of their own. */
	s->keep = dp.reserve && dp.reserve_size - *dp_u64(dp.table, DP_HDR_RESERVE_USED) >= dp_reserve_for(s->text_size);
	if (!dp_map_scratch(s))
		return 0;
	fill_in(s->ctl);
	long twin;
	int reaped;
	uint32_t functions = *dp_u32(dp.table, DP_HDR_FUNCTIONS + DP_SEC_COUNT);
	const char *why = dp_run_twin(s, &twin, &reaped);
	int planned = !why;
	if (planned)
		why = dp_map_arenas(s->ctl);
	int mapped = !why;
	if (!why && !dp_rows_grow(*dp_u32(dp.table, DP_HDR_COUNTERS)))
		why = "no room for the counts of the threads";
	if (!why && !dp_traps_add(s->ctl))
		why = "no memory for the list of traps";
	if (!why)
		why = dp_map_views(s->ctl);
	if (mapped && why)
		dp_unmap_arenas(s->ctl);
	if (!why && s->ctl->stop)
		dp_stop();
	if (!why) {
		dp_note_origins(s->ctl);
		dp_note_arenas(s->ctl);
		dp_arm_new(functions);
		dp_pause_new();
		dp_apply_patches(s->ctl);
		dp_keep_patches(s->ctl);
	}
	dp_finish_twin(twin, reaped, planned);
	return !why;
}

/* Whether a seccomp filter is in force, one from before the program's start
 * too. Asked by system calls that dlopen has just made. */
static int sandboxed(void)
{
	static const char name[] = "\nSeccomp:\t";
	char text[4096];
	if (dp_filtered())
		return 1;
	long fd = raw(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);
	if (failed(fd))
		return 0;
	long n = raw(SYS_read, fd, text, sizeof text - 1);
	raw(SYS_close, fd);
	for (long i = 0; i + (long)sizeof name < n; i++)
		if (same_bytes(text + i, name, sizeof name - 1))
			return text[i + (long)sizeof name - 1] != '0';
	return 0;
}

void dp_objects_changed(void)
{
	dp_objects_gone();
	if (!kept || kept->r_debug->r_state != RT_CONSISTENT || dp_stopped())
		return;
	struct dp_session s = {.auxv = kept->auxv};
	uint32_t added = 0;
	for (uint32_t n = 0; n < NAMESPACES; n++)
		for (const struct link_map *l = first_of(n); l; l = l->l_next)
			if (!is_known(l->l_ld)) {
				added++;
				s.text_size += text_of(l);
			}
	if (added && !dp_own_objects) {
		uint64_t all = ~0ULL, mask;
		int can = !sandboxed();
		if (can) {
			raw(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, 8);
			can = count_new(&s);
			dp_unmap_scratch(&s);
			raw(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
		}
		if (!can)
			__atomic_fetch_add(dp_u32(dp.table, DP_HDR_OBJECTS_MISSED), added, __ATOMIC_RELAXED);
	}
	know_all();
}
