/* A program may execute another in its place, as wrappers do, env, nice, a shell's exec.
 * That is the one that does the work: it is counted, too, if it can be. In the
 * environment that it gets there is nothing of ours any more, so
 *
 *  1. at the start a copy is made of what was there;
 *  2. at the system call, if this is the process that was started, that is put behind the
 *     environment that the program hands over, in memory of ours;
 *  3. if the call comes back, which may be for want of room for that, it is made once
 *     more as the program meant it.
 * A program that could not be counted, or that has other rights, gets what it was meant to
 * get: it would see what nobody takes away. So does one for which a filter is there that may
 * kill: we start by system calls that it would never make, and nobody could ask. What children execute is only told of.
 *
 * Where all that is executed shall be counted its environment has what that takes, and nothing
 * is to be done but for programs that load no library of ours: these are counted by hotspots run,
 * from outside, who is told at the system call (outside.c).
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/filters.h"
#include "base/mapped.h"
#include "base/pages.h"
#include "base/recordlock.h"
#include "base/state.h"
#include "base/text.h"
#include "rows/space.h"
#include "sites/outside.h"
#include "sites/successor.h"
#include "sites/watched.h"

static const char preload_name[] = "LD_PRELOAD=", pad[] = "DYNPROF_PAD=1";

static struct {
	const char *vars; /* one behind the other */
	uint64_t count;
	const char *first, *self;
	long uid, gid;
	int followed;
} kept;

void dp_successors_followed(void) { kept.followed = 1; }

static int is_ours(const char *entry) { return has_prefix(entry, "DYNPROF_") && !has_prefix(entry, "DYNPROF_PAD="); }

/* Puts a text behind those that there are, and returns where it is. */
static const char *keep(struct dp_text_buffer *b, const char *text)
{
	const char *at = b->text + b->used;
	dp_put(b, text, text_len(text) + 1);
	return at;
}

void dp_successor_keep(char **envp, const char *first, const char *self)
{
	uint64_t size = text_len(self) + 2 + (first ? text_len(first) + 1 : 0);
	for (char **e = envp; *e; e++)
		size += is_ours(*e) ? text_len(*e) + 1 : 0;
	long at = raw(SYS_mmap, 0, pages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(at))
		return;
	struct dp_text_buffer b = dp_buffer((char *)at, size);
	kept.self = keep(&b, self);
	if (first)
		kept.first = keep(&b, first);
	kept.vars = b.text + b.used;
	for (char **e = envp; *e; e++)
		if (is_ours(*e)) {
			keep(&b, *e);
			kept.count++;
		}
	kept.uid = raw(SYS_getuid);
	kept.gid = raw(SYS_getgid);
}

/* ---- who is executed ---------------------------------------------------- */

enum { HEAD = 4096, INTERPRETERS = 4 };

/* What counts a program, if it can be counted. */
enum counted_by { BY_NOBODY, BY_LIBRARY, FROM_OUTSIDE };

static enum counted_by by_linker(const char *name, uint64_t n)
{
	static const char glibc[] = "/ld-linux-x86-64.so.2", musl[] = "/ld-musl-";
	if (n >= sizeof glibc && same_bytes(name + n - sizeof glibc, glibc, sizeof glibc))
		return BY_LIBRARY;
	for (uint64_t i = 0; i + sizeof musl <= n; i++)
		if (same_bytes(name + i, musl, sizeof musl - 1))
			return FROM_OUTSIDE;
	return BY_NOBODY;
}

/* By the headers. */
static enum counted_by counts(const uint8_t *head, uint64_t n)
{
	const Elf64_Ehdr *e = (const Elf64_Ehdr *)head;
	if (n < sizeof *e || !same_bytes(e->e_ident, ELFMAG, SELFMAG) || e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_machine != EM_X86_64 ||
	    e->e_phentsize != sizeof(Elf64_Phdr) || e->e_phoff > n || e->e_phnum > (n - e->e_phoff) / sizeof(Elf64_Phdr) || e->e_phoff % 8)
		return BY_NOBODY;
	const Elf64_Phdr *p = (const Elf64_Phdr *)(head + e->e_phoff);
	for (unsigned i = 0; i < e->e_phnum; i++)
		if (p[i].p_type == PT_INTERP)
			return p[i].p_offset < n && p[i].p_filesz <= n - p[i].p_offset ? by_linker((const char *)head + p[i].p_offset, p[i].p_filesz) : BY_NOBODY;
	return FROM_OUTSIDE;
}

/* What is executed: by a path from a directory on, or what a descriptor leads to (fexecve). */
struct program {
	long dir;
	uint64_t path;
	int opened; /* it is dir itself */
};

static int is_ordinary(const struct stat *st) { return S_ISREG(st->st_mode) && !(st->st_mode & (S_ISUID | S_ISGID)); }

/* Reads the beginning of an open file that gives nobody other rights. Returns its length, or
 * -errno. */
static long read_opened(long fd, uint8_t *head)
{
	struct stat st;
	if (ask(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) != 0 || !is_ordinary(&st) || !failed(ask(SYS_fgetxattr, fd, "security.capability", 0, 0)))
		return 0;
	return ask(SYS_pread64, fd, head, HEAD, 0);
}

/* The same of one by its path. It is opened, and closed again, without a trace; one that the
 * program has open itself, and may have locked, is read by its descriptor. */
static long read_named(long dir, uint64_t path, uint8_t *head)
{
	struct stat st, is;
	if (ask(SYS_newfstatat, dir, path, &st, 0) != 0 || !is_ordinary(&st))
		return 0;
	long fd = dp_opened_as(st.st_ino);
	if (!failed(fd))
		return ask(SYS_fstat, fd, &is) == 0 && is.st_ino == st.st_ino && is.st_dev == st.st_dev ? read_opened(fd, head) : 0;
	fd = ask(SYS_openat, dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (failed(fd))
		return 0;
	long n = read_opened(fd, head);
	ask(SYS_close, fd);
	return n;
}

/* The length of what was read of it, 0 if nothing may be. A descriptor that is good for its path
 * only (O_PATH) is opened by that. */
static uint64_t read_head(const struct program *p, uint8_t *head)
{
	char path[40];
	struct dp_text_buffer b = dp_buffer(path, sizeof path);
	long n = p->opened ? read_opened(p->dir, head) : read_named(p->dir, p->path, head);
	if (p->opened && n == -EBADF) {
		dp_put_text(&b, "/proc/self/fd/");
		dp_put_number(&b, (uint64_t)p->dir, 10);
		n = read_named(AT_FDCWD, (uint64_t)path, head);
	}
	return failed(n) ? 0 : (uint64_t)n;
}

/* The interpreter that a script names, cut out of its first line; 0: it is none. */
static const char *interpreter(char *head, uint64_t n)
{
	enum { LONGEST = 255 };
	uint64_t at = 2;
	if (n < 3 || head[0] != '#' || head[1] != '!')
		return 0;
	while (at < n && (head[at] == ' ' || head[at] == '\t'))
		at++;
	for (uint64_t i = at; i < n && i < LONGEST; i++)
		if (head[i] == '\n' || head[i] == ' ' || head[i] == '\t' || !head[i]) {
			head[i] = 0;
			return head + at;
		}
	return 0;
}

/* Whether who we are is still who we were: another user may neither read our library nor
 * write beside our table, and would be told so. */
static int has_same_rights(void)
{
	return ask(SYS_getuid) == kept.uid && ask(SYS_geteuid) == kept.uid && ask(SYS_getgid) == kept.gid && ask(SYS_getegid) == kept.gid;
}

/* Whether our library is where it was: not in another root. */
static int has_library(void)
{
	long fd = ask(SYS_openat, AT_FDCWD, kept.self, O_RDONLY | O_CLOEXEC);
	if (failed(fd))
		return 0;
	ask(SYS_close, fd);
	return 1;
}

/* Of a script it is what counts its interpreter. head has room for HEAD bytes, and for a path
 * behind them. */
static enum counted_by who_counts(struct program p, uint8_t *head)
{
	for (int i = 0; i < INTERPRETERS; i++) {
		uint64_t n = read_head(&p, head);
		const char *next = interpreter((char *)head, n);
		if (!next)
			return counts(head, n);
		text_copy((char *)head + HEAD, HEAD, next);
		p = (struct program){AT_FDCWD, (uint64_t)head + HEAD, 0};
	}
	return BY_NOBODY;
}

static int can_be_counted(struct program p, uint8_t *head)
{
	return who_counts(p, head) == BY_LIBRARY && has_same_rights() && has_library();
}

/* ---- its environment ----------------------------------------------------- */

/* The program's, as far as it was looked at. Its pointers may be bad. */
struct given {
	uint64_t at, count, stack;
	uint64_t preload; /* the entry of LD_PRELOAD; 0: there is none */
};

/* Whether an entry begins so. No page behind its end is read. */
static int begins(const struct given *g, uint64_t entry, const char *with)
{
	char head[24] = {0};
	uint64_t n = text_len(with), here = DP_PAGE_SIZE - entry % DP_PAGE_SIZE;
	if (here >= n)
		return dp_read_argument(head, entry, n, g->stack) && same_bytes(head, with, n);
	return dp_read_argument(head, entry, here, g->stack) && same_bytes(head, with, here) && dp_read_argument(head, entry + here, n - here, g->stack) &&
	       same_bytes(head, with + here, n - here);
}

/* Counts the entries, and finds what concerns us. Returns 0 if that cannot be done. */
static int look_at(struct given *g)
{
	enum { MOST = 1 << 17 };
	for (uint64_t entry = 0; g->count < MOST; g->count++) {
		if (!dp_read_argument(&entry, g->at + 8 * g->count, sizeof entry, g->stack))
			return 0;
		if (!entry)
			return 1;
		if (begins(g, entry, "DYNPROF_"))
			return 0; /* somebody else counts */
		if (!begins(g, entry, preload_name))
			continue;
		if (g->preload)
			return 0; /* the dynamic linker takes one of them, getenv another */
		g->preload = entry;
	}
	return 0;
}

/* The program's LD_PRELOAD, between what came first and us. Returns 0 if there is no room, or
 * if it would be another when we are taken out again: one that is empty, or has spaces or
 * empty names. */
static int put_preload(const struct given *g, struct dp_text_buffer *b)
{
	dp_put_text(b, preload_name);
	if (kept.first) {
		dp_put_text(b, kept.first);
		dp_put_text(b, ":");
	}
	char c = ':', before;
	for (uint64_t from = g->preload ? g->preload + sizeof preload_name - 1 : 0; from && c && !b->bad; from++) {
		before = c;
		if (!dp_read_argument(&c, from, 1, g->stack) || c == ' ' || ((c == ':' || !c) && before == ':'))
			return 0;
		dp_put(b, c ? &c : ":", 1);
	}
	dp_put_text(b, kept.self);
	return !b->bad;
}

enum { PRELOAD_ROOM = 1 << 16 };

/* What the array takes, with LD_PRELOAD, something to make it even, and its end. */
static uint64_t array_size(const struct given *g) { return 8 * (g->count + kept.count + 3); }

/* What lies in memory of ours: the array and LD_PRELOAD; or the head of a file, and a path. */
static uint64_t room_for(const struct given *g)
{
	return pages(array_size(g) + PRELOAD_ROOM + (kept.first ? text_len(kept.first) : 0) + text_len(kept.self) + 2 * HEAD);
}

/* The array of the program's entries and ours. What the library takes away before main is an
 * even number (hotspots' internal/launch/environ.go). */
static int make_environment(const struct given *g, char **array, uint64_t room)
{
	uint64_t n = 0, taken = kept.count + !g->preload; /* LD_PRELOAD, if nothing is left of it */
	struct dp_text_buffer preload = dp_buffer((char *)array + array_size(g), room - array_size(g));
	if (g->count && !dp_read_argument(array, g->at, 8 * g->count, g->stack))
		return 0;
	for (uint64_t i = 0; i < g->count; i++)
		if ((uint64_t)array[i] != g->preload)
			array[n++] = array[i];
	array[n++] = preload.text;
	if (!put_preload(g, &preload))
		return 0;
	const char *var = kept.vars;
	for (uint64_t i = 0; i < kept.count; i++, var += text_len(var) + 1)
		array[n++] = (char *)var;
	if (taken % 2)
		array[n++] = (char *)pad;
	array[n] = 0;
	return 1;
}

/* ---- the system call ------------------------------------------------------- */

static int is_at(const struct dp_regs *r) { return (uint32_t)r->rax == DP_NR_execveat; }

static uint64_t *environment(struct dp_regs *r) { return is_at(r) ? &r->r10 : &r->rdx; }

static struct program program(const struct dp_regs *r)
{
	if (!is_at(r))
		return (struct program){AT_FDCWD, r->rdi, 0};
	char first = 0;
	int opened = (r->r8 & AT_EMPTY_PATH) && dp_read_argument(&first, r->rsi, 1, dp_program_stack(r)) && !first;
	return (struct program){(long)(int)r->rdi, r->rsi, opened};
}

/* Tells hotspots run, if the environment names it, of a program that loads no library of ours. */
static void tell_outside(struct dp_regs *r)
{
	static const char name[] = "DYNPROF_OUTSIDE=";
	enum { MOST = 1 << 17 };
	struct given g = {.at = *environment(r), .stack = dp_program_stack(r)};
	uint64_t entry = 0, room = pages(2 * HEAD);
	if (!g.at || dp_stopped())
		return;
	for (;; g.count++) {
		if (g.count == MOST || !dp_read_argument(&entry, g.at + 8 * g.count, sizeof entry, g.stack) || !entry)
			return;
		if (begins(&g, entry, name))
			break;
	}
	long at = ask(SYS_mmap, 0, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(at))
		return;
	if (who_counts(program(r), (uint8_t *)at) == FROM_OUTSIDE)
		dp_outside_follows(entry + sizeof name - 1, g.stack);
	ask(SYS_munmap, at, room);
}

/* Whether this is the process that was started, and no child of vfork on its memory. */
static int is_first(void)
{
	enum { FIRST = 1 };
	long pid = ask(SYS_getpid);
	return dp.incarnation == FIRST && !failed(pid) && (uint32_t)pid == dp.pid;
}

/* An environment by which what is executed is counted; 0: there is none. *room is its size. */
static uint64_t counting_environment(const struct dp_regs *r, uint64_t envp, uint64_t *room)
{
	struct given g = {.at = envp, .stack = dp_program_stack(r)};
	if (!kept.vars || !is_first() || dp_stopped() || (envp && !look_at(&g)))
		return 0;
	*room = room_for(&g);
	long at = ask(SYS_mmap, 0, *room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(at))
		return 0;
	if (dp_filters_only_refuse((uint8_t *)at) && can_be_counted(program(r), (uint8_t *)at) && make_environment(&g, (char **)at, *room))
		return (uint64_t)at;
	ask(SYS_munmap, at, *room);
	*room = 0;
	return 0;
}

/* The counter of the programs that are, or are not, counted as what this one executes. */
static void note(uint64_t ours, uint32_t by)
{
	if (!kept.followed)
		__atomic_fetch_add(ours ? &dp.table->went_on : &dp.table->executed, by, __ATOMIC_RELAXED);
}

/* The program's environment is kept, and in r->fork how much memory ours takes, whether
 * the call is an execveat, and which limits of address space were others. */
enum { AT_BIT = 1, SPACE_SHIFT = 1, SPACE_BITS = (DP_SPACE_SOFT | DP_SPACE_HARD) << SPACE_SHIFT, BITS = AT_BIT | SPACE_BITS };

int dp_executes(struct dp_regs *r)
{
	uint64_t *envp = environment(r), room = 0, ours = 0;
	r->kept = *envp;
	if (kept.followed)
		tell_outside(r);
	else
		ours = counting_environment(r, *envp, &room);
	uint64_t space = dp_space_as_meant(0) << SPACE_SHIFT; /* what is mapped above may need what is ours */
	if (kept.followed && !space)
		return 0;
	if (ours)
		*envp = ours;
	r->fork = room | (is_at(r) ? AT_BIT : 0) | space;
	note(ours, 1);
	return 1;
}

void dp_executed(struct dp_regs *r)
{
	uint64_t room = r->fork & ~(uint64_t)BITS, *envp = r->fork & AT_BIT ? &r->r10 : &r->rdx, ours = room ? *envp : 0;
	*envp = r->kept;
	note(ours, -1U);
	if (ours) {
		ask(SYS_munmap, ours, room);
		r->rax = (uint64_t)(r->fork & AT_BIT ? raw(SYS_execveat, r->rdi, r->rsi, r->rdx, r->r10, r->r8) : raw(SYS_execve, r->rdi, r->rsi, r->rdx));
	}
	dp_space_as_it_was((r->fork & SPACE_BITS) >> SPACE_SHIFT);
	r->fork = 0;
}
