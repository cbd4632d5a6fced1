/* The constructor: what happens in the target before its main.
 *
 * No Go code runs here. The Go runtime's start entry lies outside DT_INIT_ARRAY
 * (goinit.ld), so that loading the library starts nothing; a copy of this
 * process, the twin, starts it by hand, plans, and is gone before main.
 *
 *  1. The environment loses our entries.
 *  2. Shared memory is mapped: the control block, the patch list, and the
 *     reserve whose pages become the arenas.
 *  3. The twin is made; it writes the table, the stubs and the patch list.
 *  4. The arenas are mapped where the stubs will run, the table is mapped,
 *     this thread gets row 0.
 *  5. The patches are applied; the twin is reaped; all scratch memory goes.
 * Whatever fails, the program runs as it would have without us, and one line
 * on stderr says why nothing is counted.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "ctl.h"
#include "rows.h"
#include "state.h"
#include "twin.h"

#define ARCH_SET_GS 0x1001
#define ARCH_GET_GS 0x1004
#define HWCAP2_FSGSBASE (1 << 1)
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum { TWIN_SECONDS = 30 };

/* What the constructor works with; gone before main. */
struct start {
	struct dp_ctl *ctl;
	char **envp;
	Elf64_auxv_t *auxv;
	const char *program;
	const char *self; /* our name in the link map */
	const char *added; /* what hotspots run put into LD_PRELOAD besides us */
	const char *note; /* file in which hotspots run looks for why nothing is counted */
	uint64_t text_size;
	uint64_t scratch_size;
	int follow_exec;
	int strict; /* hotspots run --strict: end a program that cannot be counted */
};

static uint64_t aux(const struct start *s, uint64_t type)
{
	for (Elf64_auxv_t *a = s->auxv; a->a_type != AT_NULL; a++)
		if (a->a_type == type)
			return a->a_un.a_val;
	return 0;
}

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

/* One line on stderr: "dynprof: PROGRAM: not counted: WHY". hotspots run is told
 * that it has been said. */
static void not_counted(const struct start *s, const char *why)
{
	char line[DP_LINE_MAX + 256];
	size_t n = text_copy(line, sizeof line, "dynprof: ");
	n += text_copy(line + n, 200, s->program ? s->program : "?");
	n += text_copy(line + n, sizeof line - n, ": not counted: ");
	n += text_copy(line + n, sizeof line - n - 1, why);
	for (size_t i = 0; i < n; i++)
		if ((uint8_t)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?'; /* names can hold anything */
	line[n++] = '\n';
	write_quietly(2, line, n);
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

static int same(const char *a, const char *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (a[i] != b[i])
			return 0;
	return 1;
}

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
	return text_len(name) == n && same(entry, name, n);
}

/* Whether hotspots run put that entry there (a sanitizer's run-time library). */
static int is_added(const struct start *s, const char *entry, size_t n)
{
	const char *p = s->added;
	while (p && *p) {
		size_t k = 0;
		while (p[k] && p[k] != ':')
			k++;
		if (k == n && same(entry, p, n))
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

/* Remembers our variables for the twin and, unless exec is followed, takes
 * them out of the array that libc's environ is going to be. */
static void take_environment(struct start *s)
{
	struct dp_ctl *ctl = s->ctl;
	char **out = s->envp;
	for (char **e = s->envp; *e; e++) {
		int ours = has_prefix(*e, "DYNPROF_");
		if ((ours || has_prefix(*e, "XDG_RUNTIME_DIR=")) && ctl && ctl->vars_count < DP_MAX_VARS)
			ctl->vars[ctl->vars_count++] = (uint64_t)*e;
		if (!s->follow_exec && (ours || (has_prefix(*e, "LD_PRELOAD=") && !strip_preload(s, *e + 11))))
			continue;
		*out++ = *e;
	}
	bridge(out, (char **)s->auxv);
}

static void read_environment(struct start *s)
{
	char **e = s->envp;
	for (; *e; e++) {
		if (has_prefix(*e, "DYNPROF_FOLLOW_EXEC="))
			s->follow_exec = (*e)[20] && (*e)[20] != '0';
		if (has_prefix(*e, "DYNPROF_STRICT="))
			s->strict = (*e)[15] && (*e)[15] != '0';
		if (has_prefix(*e, "DYNPROF_PRELOADED="))
			s->added = *e + 18;
		if (has_prefix(*e, "DYNPROF_NOTE="))
			s->note = *e + 13;
	}
	s->auxv = (Elf64_auxv_t *)(e + 1);
}

/* ---- what is loaded --------------------------------------------------- */

static int note_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct start *s = arg;
	uint64_t here = (uint64_t)&note_object, low = ~0ULL, high = 0;
	int self = 0;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *p = &info->dlpi_phdr[i];
		if (p->p_type != PT_LOAD)
			continue;
		uint64_t at = info->dlpi_addr + p->p_vaddr;
		if (at < low)
			low = at;
		if (at + p->p_memsz > high)
			high = at + p->p_memsz;
		if (p->p_flags & PF_X)
			s->text_size += p->p_memsz;
		self |= here >= at && here < at + p->p_memsz;
	}
	if (self)
		s->self = info->dlpi_name;
	struct dp_ctl *ctl = s->ctl;
	if (!ctl)
		return 0; /* the first pass only measures */
	if (ctl->objects_count == DP_MAX_OBJECTS) {
		ctl->objects_lost++;
		return 0;
	}
	if (low == aux(s, AT_SYSINFO_EHDR))
		return 0;
	struct dp_object *o = &ctl->objects[ctl->objects_count++];
	o->bias = info->dlpi_addr;
	o->low = low;
	o->high = high;
	o->name = (uint64_t)info->dlpi_name;
	o->self = (uint64_t)self;
	return 0;
}

/* The vdso's clock_gettime: an event's time without a system call that a
 * seccomp filter may refuse. 0 if there is none. */
static void *vdso_clock(const struct start *s)
{
	const uint8_t *base = (const uint8_t *)aux(s, AT_SYSINFO_EHDR);
	if (!base)
		return 0;
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)base;
	const Elf64_Phdr *ph = (const Elf64_Phdr *)(base + eh->e_phoff);
	const Elf64_Dyn *dyn = 0;
	uint64_t bias = 0;
	int loaded = 0;
	for (int i = 0; i < eh->e_phnum; i++) {
		if (ph[i].p_type == PT_LOAD && !loaded++)
			bias = (uint64_t)base + ph[i].p_offset - ph[i].p_vaddr;
		if (ph[i].p_type == PT_DYNAMIC)
			dyn = (const Elf64_Dyn *)(base + ph[i].p_offset);
	}
	const Elf64_Sym *symbols = 0;
	const char *names = 0;
	const uint32_t *hash = 0;
	for (; dyn && dyn->d_tag != DT_NULL; dyn++) {
		if (dyn->d_tag == DT_SYMTAB)
			symbols = (const Elf64_Sym *)(bias + dyn->d_un.d_ptr);
		else if (dyn->d_tag == DT_STRTAB)
			names = (const char *)(bias + dyn->d_un.d_ptr);
		else if (dyn->d_tag == DT_HASH)
			hash = (const uint32_t *)(bias + dyn->d_un.d_ptr);
	}
	static const char wanted[] = "__vdso_clock_gettime";
	for (uint32_t i = 0; symbols && names && hash && i < hash[1]; i++) {
		const char *name = names + symbols[i].st_name;
		if (symbols[i].st_shndx != SHN_UNDEF && has_prefix(name, wanted) && !name[sizeof wanted - 1])
			return (void *)(bias + symbols[i].st_value);
	}
	return 0;
}

/* Whether no other thread runs: another initfirst library may have been
 * before us. Patching is safe only without. Asked first by a system call that
 * the dynamic linker has made too: a seccomp filter may kill at others. */
static int single_threaded(void)
{
	struct stat st;
	if (raw(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &st, 0) == 0)
		return st.st_nlink <= 3; /* ., .. and one thread */
	return raw(SYS_unshare, CLONE_THREAD) == 0; /* changes nothing; EINVAL with threads */
}

/* ---- shared memory ---------------------------------------------------- */

static void *map_shared(uint64_t size, int prot)
{
	long at = raw(SYS_mmap, 0, size, prot, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return failed(at) ? 0 : (void *)at;
}

static uint64_t pages(uint64_t n) { return (n + DP_PAGE_SIZE - 1) & ~(uint64_t)(DP_PAGE_SIZE - 1); }

/* Stubs take less than the text they count, but for programs of tiny
 * functions; nothing is used until it is written. */
static int map_scratch(struct start *s)
{
	uint64_t reserve = pages(s->text_size + s->text_size / 2 + (4 << 20));
	uint64_t ctl_size = pages(sizeof(struct dp_ctl));
	uint64_t list = pages(s->text_size / 2 + (1 << 20));
	struct dp_ctl *ctl = map_shared(ctl_size + list, PROT_READ | PROT_WRITE);
	if (!ctl)
		return 0;
	s->scratch_size = ctl_size + list;
	s->ctl = ctl;
	ctl->patches = (uint64_t)ctl + ctl_size;
	ctl->patches_cap = list / sizeof(struct dp_patch);
	/* Executable from the start: under PR_SET_MDWE it cannot become so. */
	ctl->reserve = (uint64_t)map_shared(reserve, PROT_READ | PROT_EXEC);
	ctl->reserve_size = reserve;
	return ctl->reserve != 0;
}

static void unmap_scratch(struct start *s)
{
	if (!s->ctl)
		return;
	if (s->ctl->reserve)
		raw(SYS_munmap, s->ctl->reserve, s->ctl->reserve_size);
	raw(SYS_munmap, s->ctl, s->scratch_size);
}

/* ---- the twin --------------------------------------------------------- */

static int64_t seconds(void)
{
	struct timespec t = {0, 0};
	raw(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* Waits until the twin is done, is gone, or has had its time. Returns 0, or
 * why there is nothing to apply. *reaped tells whether it was waited for. */
static const char *await_twin(struct dp_ctl *ctl, long twin, int *reaped)
{
	int64_t end = seconds() + TWIN_SECONDS;
	struct timespec tick = {0, 20 * 1000 * 1000};
	for (;;) {
		if (__atomic_load_n(&ctl->done, __ATOMIC_ACQUIRE))
			return ctl->status ? 0 : ctl->message;
		raw(SYS_futex, &ctl->done, FUTEX_WAIT, 0, &tick, 0, 0);
		if (__atomic_load_n(&ctl->done, __ATOMIC_ACQUIRE))
			continue;
		int status;
		if (raw(SYS_wait4, twin, &status, WNOHANG | __WALL, 0) == twin) {
			*reaped = 1;
			return "the planner died (out of memory or a resource limit?)";
		}
		if (seconds() > end)
			return "the planner took too long";
	}
}

/* CLONE_UNTRACED and no exit signal: neither a debugger nor the program's own
 * wait or SIGCHLD sees the twin. */
static const char *run_twin(struct start *s, long *twin, int *reaped)
{
	long parent = raw(SYS_getpid);
	s->ctl->pid = (uint32_t)parent;
	*reaped = 1;
	*twin = raw(SYS_clone, CLONE_UNTRACED, 0, 0, 0, 0);
	if (*twin == 0)
		dp_twin(s->ctl, s->auxv, parent);
	if (failed(*twin))
		return "cannot make a process for the planner (a process limit?)";
	*reaped = 0;
	return await_twin(s->ctl, *twin, reaped);
}

/* ---- applying the plan ------------------------------------------------ */

static const char *map_arenas(const struct dp_ctl *ctl)
{
	for (uint32_t i = 0; i < ctl->arenas_count; i++) {
		const struct dp_arena *a = &ctl->arenas[i];
		long at = raw(SYS_mmap, a->at, a->size, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
		if (!failed(at) && (uint64_t)at == a->at)
			at = raw(SYS_mremap, ctl->reserve + a->offset, 0, a->size, MREMAP_MAYMOVE | MREMAP_FIXED, a->at);
		if (failed(at) || (uint64_t)at != a->at)
			return "no address space for the stubs (ulimit -v?)";
	}
	return 0;
}

/* Without MADV_RANDOM the first touch of a hole in the file would read ahead:
 * megabytes of zeroes, milliseconds. A duplicate of the mapping keeps it. */
static void *map_file(long fd, uint64_t offset, uint64_t size)
{
	long at = raw(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	if (failed(at))
		return 0;
	raw(SYS_madvise, at, size, MADV_RANDOM);
	return (void *)at;
}

static uint64_t section_end(const uint8_t *header, uint64_t section)
{
	return *dp_u64(header, section + DP_SEC_OFFSET) +
	       (uint64_t)*dp_u32(header, section + DP_SEC_CAPACITY) * *dp_u32(header, section + DP_SEC_ENTRY_SIZE);
}

/* Maps the table the twin wrote: first its header, which says how much more. */
static int map_table_fd(struct start *s, long fd)
{
	uint8_t *header = map_file(fd, 0, DP_HEADER_SIZE);
	if (!header)
		return 0;
	int mine = 1;
	for (int i = 0; i < 16; i++)
		mine &= header[DP_HDR_NONCE + i] == s->ctl->nonce[i];
	uint64_t head = section_end(header, DP_HDR_EVENTS), fired = section_end(header, DP_HDR_FIRED);
	if (fired > head)
		head = fired;
	uint64_t rows = *dp_u64(header, DP_HDR_ROWS + DP_SEC_OFFSET);
	dp.row_stride = *dp_u32(header, DP_HDR_ROWS + DP_SEC_ENTRY_SIZE);
	dp.rows_max = *dp_u32(header, DP_HDR_ROWS + DP_SEC_CAPACITY);
	dp.counters = *dp_u32(header, DP_HDR_COUNTERS);
	dp.row_used = DP_ROW_COUNTERS + 8 * (uint64_t)dp.counters;
	if (*dp_u32(header, DP_HDR_FLAGS) & DP_FLAG_THRESHOLD)
		dp.threshold_fired = *dp_u64(header, DP_HDR_FIRED + DP_SEC_OFFSET);
	raw(SYS_munmap, header, DP_HEADER_SIZE);
	if (!mine)
		return 0;
	dp.table = map_file(fd, 0, pages(head));
	dp.chunks[0] = map_file(fd, rows, 2 * dp.row_stride);
	long at = raw(SYS_mmap, 0, dp.row_stride, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!dp.table || !dp.chunks[0] || failed(at))
		return 0;
	dp.discard = (uint8_t *)at;
	if (dp.threshold_fired)
		dp.threshold_fired += (uint64_t)dp.table;
	return 1;
}

static void unmap_table(void)
{
	if (dp.table)
		raw(SYS_munmap, dp.table, pages(section_end(dp.table, DP_HDR_FIRED)));
	if (dp.chunks[0])
		raw(SYS_munmap, dp.chunks[0], 2 * dp.row_stride);
	if (dp.discard)
		raw(SYS_munmap, dp.discard, dp.row_stride);
	dp = (struct dp_state){0};
}

/* Sets this thread's GS base. */
static int set_gs(const struct start *s, uint8_t *row)
{
	uint64_t old = 0;
	if (raw(SYS_arch_prctl, ARCH_GET_GS, &old) != 0 || old != 0)
		return 0; /* somebody else uses it */
	dp_have_wrgsbase = (aux(s, AT_HWCAP2) & HWCAP2_FSGSBASE) != 0;
	return raw(SYS_arch_prctl, ARCH_SET_GS, row) == 0;
}

static const char *map_table(struct start *s)
{
	long fd = raw(SYS_openat, AT_FDCWD, s->ctl->table, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (failed(fd))
		return "the count table cannot be opened again";
	int ok = map_table_fd(s, fd);
	raw(SYS_close, fd);
	if (!ok)
		return "the count table cannot be mapped (ulimit -v?)";
	dp.clock_gettime = (int (*)(int, void *))vdso_clock(s);
	uint8_t *row = dp_row_at(0);
	*dp_u32(row, DP_ROW_KIND) = DP_ROW_PROCESS;
	dp_rows_begin(row);
	*dp_u32(row, DP_ROW_OWNER) = dp.incarnation;
	*dp_u32(row, DP_ROW_PID) = *dp_u32(row, DP_ROW_TID) = dp.pid;
	*dp_u32(row, DP_ROW_STATE) = DP_ROW_LIVE;
	*dp_u32(dp.table, DP_HDR_ROWS_USED) = 1;
	*dp_u32(dp.discard, DP_ROW_INDEX) = DP_NO_ROW;
	if (!set_gs(s, row))
		return "the program uses the GS segment";
	return 0;
}

static int holds(const struct dp_patch *p, const uint8_t *bytes)
{
	return same((const char *)p->at, (const char *)bytes, p->len);
}

/* Groups of patches that cannot be made, one bit each, once there is one. */
struct refused {
	uint8_t *bits;
	uint64_t size;
	uint32_t groups; /* how many */
	int all;	 /* no memory for the bits: none is made */
};

static int is_refused(const struct refused *r, uint32_t group)
{
	return r->all || (r->bits && group != DP_NO_GROUP && group / 8 < r->size && r->bits[group / 8] >> group % 8 & 1);
}

static void refuse(struct refused *r, uint32_t group)
{
	if (group == DP_NO_GROUP || is_refused(r, group))
		return;
	if (!r->bits) {
		r->size = pages(*dp_u32(dp.table, DP_HDR_FUNCTIONS + DP_SEC_COUNT) / 8 + 1);
		long at = raw(SYS_mmap, 0, r->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		r->bits = failed(at) ? 0 : (uint8_t *)at;
		r->all = !r->bits;
	}
	if (r->bits && group / 8 < r->size)
		r->bits[group / 8] |= (uint8_t)(1 << group % 8);
	r->groups++;
}

/* A patch that needs a group which is refused is refused with its own; others
 * may need that in turn. */
static void refuse_guests(const struct dp_ctl *ctl, struct refused *r)
{
	uint32_t before;
	do {
		before = r->groups;
		const struct dp_patch *p = (const struct dp_patch *)ctl->patches;
		for (uint32_t i = 0; i < ctl->texts_count; i++)
			for (uint32_t k = 0; k < ctl->texts[i].patches; k++, p++)
				if (p->needs != DP_NO_GROUP && is_refused(r, p->needs))
					refuse(r, p->group);
	} while (r->groups != before);
}

/* Writes bytes where text is writable; there is one thread, so no order
 * matters. */
static void store_text(uint64_t to, const uint8_t *bytes, uint32_t n)
{
	volatile uint8_t *at = (volatile uint8_t *)to;
	for (uint32_t i = 0; i < n; i++)
		at[i] = bytes[i];
}

/* Makes the patches of one run of pages or, with undo, takes back those of
 * groups that are refused. Never writable without executable: were there
 * another thread, it could be running there. Where the pages may not be both
 * (PR_SET_MDWE, SELinux), /proc/self/mem writes to them all the same. */
static void patch_text(const struct dp_text *t, const struct dp_patch *list, struct refused *r, int undo)
{
	long mem = -1;
	int direct = raw(SYS_mprotect, t->start, t->size, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
	if (!direct)
		mem = raw(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDWR | O_CLOEXEC);
	for (uint32_t i = 0; i < t->patches; i++) {
		const struct dp_patch *p = &list[i];
		const uint8_t *from = undo ? p->new : p->old, *to = undo ? p->old : p->new;
		if (undo && !is_refused(r, p->group))
			continue;
		if (!holds(p, from))
			refuse(r, p->group);
		else if (direct)
			store_text(p->at, to, p->len);
		else if (failed(mem) || raw(SYS_pwrite64, mem, to, p->len, p->at) != (long)p->len)
			refuse(r, p->group);
	}
	if (direct)
		raw(SYS_mprotect, t->start, t->size, t->prot);
	else if (!failed(mem))
		raw(SYS_close, mem);
}

static void patch_all(const struct dp_ctl *ctl, struct refused *r, int undo)
{
	const struct dp_patch *list = (const struct dp_patch *)ctl->patches;
	for (uint32_t i = 0; i < ctl->texts_count; i++) {
		patch_text(&ctl->texts[i], list, r, undo);
		list += ctl->texts[i].patches;
	}
}

/* Writes into the table's ledger that the refused groups are not counted. */
static void note_refused(const struct start *s, const struct refused *r)
{
	long fd = raw(SYS_openat, AT_FDCWD, s->ctl->table, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (failed(fd))
		return;
	static const uint8_t how[2] = {DP_REFUSED_TACTIC, DP_REFUSED_REASON};
	uint64_t functions = *dp_u64(dp.table, DP_HDR_FUNCTIONS + DP_SEC_OFFSET);
	uint32_t count = *dp_u32(dp.table, DP_HDR_FUNCTIONS + DP_SEC_COUNT);
	for (uint32_t i = 0; i < count; i++)
		if (is_refused(r, i))
			raw(SYS_pwrite64, fd, how, 2, functions + (uint64_t)i * DP_FN_ENTRY_SIZE + DP_FN_TACTIC);
	raw(SYS_close, fd);
}

static const char *apply(struct start *s)
{
	struct dp_ctl *ctl = s->ctl;
	const char *why = map_arenas(ctl);
	if (!why)
		why = map_table(s);
	if (why) {
		unmap_table();
		for (uint32_t i = 0; i < ctl->arenas_count; i++)
			raw(SYS_munmap, ctl->arenas[i].at, ctl->arenas[i].size);
		raw(SYS_unlinkat, AT_FDCWD, ctl->table, 0);
		return why;
	}
	struct refused r = {0};
	patch_all(ctl, &r, 0);
	if (r.groups) {
		refuse_guests(ctl, &r);
		patch_all(ctl, &r, 1);
		note_refused(s, &r);
		*dp_u32(dp.table, DP_HDR_PATCHES_REFUSED) = r.groups;
		if (r.bits)
			raw(SYS_munmap, r.bits, r.size);
	}
	__atomic_store_n(dp_u32(dp.table, DP_HDR_STATE), DP_STATE_LIVE, __ATOMIC_RELEASE);
	return 0;
}

static const char *count(struct start *s)
{
	if (!single_threaded())
		return "another library started threads before us";
	if (!map_scratch(s))
		return "no address space (ulimit -v?)";
	take_environment(s);
	dl_iterate_phdr(note_object, s);
	s->ctl->cold_entry = (uint64_t)&dp_cold;
	s->ctl->clone_entry = (uint64_t)&dp_clone_site;
	long twin;
	int reaped, status;
	const char *why = run_twin(s, &twin, &reaped);
	if (!why)
		why = apply(s); /* while the twin tears its memory down */
	else if (!reaped)
		raw(SYS_kill, twin, SIGKILL);
	if (!reaped)
		raw(SYS_wait4, twin, &status, __WALL, 0);
	return why;
}

__attribute__((constructor)) static void start(int argc, char **argv, char **envp)
{
	struct start s = {.envp = envp, .program = argc > 0 ? argv[0] : 0, .self = ""};
	read_environment(&s);
	if (aux(&s, AT_SECURE))
		return;
	dl_iterate_phdr(note_object, &s);
	const char *why = count(&s);
	if (!s.ctl)
		take_environment(&s);
	if (why)
		not_counted(&s, why);
	if (why && s.strict)
		raw(SYS_exit_group, 125); /* as the user asked */
	unmap_scratch(&s);
}
