/* A planner that is a program of its own.
 *
 * A twin is a copy of the target, and the kernel copies all its mappings and page
 * tables: 10 ms for a thousand libraries, as much for 200 MB. And the target's pages,
 * shared with it, are copied one by one as they are written to. Objects that come
 * later can be planned by a process that has none of that:
 *
 *  1. The target makes a child that shares its memory. A table of descriptors of its
 *     own lets it open what the planner needs: the target's memory, the count table,
 *     and two files without a name, the control block and the reserve, which it maps
 *     in the target.
 *  2. It makes another child, which executes this library by the dynamic linker, and
 *     waits for that one: exec gives a process an exit signal, and the target shall
 *     see none. The first child has none.
 *  3. The planner maps the block and the reserve where the target has them, reads the
 *     new objects to where they lie there, and plans as a twin does (planner.c).
 * Nothing of this may be possible: no /proc, no right to open a file, another root. If
 * the planner has not begun to write to the table a twin plans instead.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/lock.h"
#include "base/memory.h"
#include "base/own.h"
#include "base/state.h"
#include "base/tasks.h"
#include "outsider.h"
#include "session.h"
#include "twin.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

long dp_thread(long flags, void *stack, void *tls) HIDDEN; /* threads.c */

/* A file, and whether it is still that. */
struct file {
	const char *path; /* 0: it is not to be used */
	struct stat was;
};

static struct file linker, library, table;

static void note_file(struct file *f, const char *path)
{
	f->path = path && path[0] == '/' && raw(SYS_newfstatat, AT_FDCWD, path, &f->was, 0) == 0 ? path : 0;
}

static int same(const struct stat *a, const struct stat *b) { return a->st_ino == b->st_ino && a->st_dev == b->st_dev; }

/* Not even written to: a new version, copied over. */
static int is_as_it_was(const struct file *f)
{
	struct stat now;
	return raw(SYS_newfstatat, AT_FDCWD, f->path, &now, 0) == 0 && same(&now, &f->was) && now.st_size == f->was.st_size &&
	       now.st_mtim.tv_sec == f->was.st_mtim.tv_sec && now.st_mtim.tv_nsec == f->was.st_mtim.tv_nsec;
}

void dp_outsider_keep(const struct r_debug *r_debug, const char *path)
{
	const char *self = 0, *linker_name = 0;
	for (const struct link_map *l = r_debug->r_map; l; l = l->l_next) {
		if (l->l_ld == (const void *)_DYNAMIC)
			self = l->l_name;
		if (l->l_addr == r_debug->r_ldbase)
			linker_name = l->l_name;
	}
	note_file(&linker, linker_name);
	note_file(&library, self);
	note_file(&table, path);
}

/* ---- the two children; they share the target's memory --------------------- */

enum { STARTING, LAUNCHED, FAILED };
enum { STACK = 64 << 10 };

/* In front of their stacks. */
struct launch {
	struct dp_session *s;
	void (*prepare)(struct dp_session *);
	long parent, watcher;
	uint32_t state; /* a futex word */
	char variable[sizeof DP_OUT_VARIABLE + sizeof(struct dp_out_words) / sizeof(uint64_t) * 16];
};

static void **stack_of(struct launch *l, int child, void *(*runs)(void *))
{
	void **top = (void **)((uint8_t *)l + (child + 1) * STACK) - 2;
	top[0] = (void *)runs;
	top[1] = l;
	return top;
}

static void tell(struct launch *l, uint32_t state)
{
	__atomic_store_n(&l->state, state, __ATOMIC_RELEASE);
	raw(SYS_futex, &l->state, FUTEX_WAKE, 1, 0, 0, 0);
}

static int open_as(long fd, const char *path, int flags) /* does not wait, if it is a pipe by now */
{
	return raw(SYS_openat, AT_FDCWD, path, flags | O_NONBLOCK | O_NOCTTY) == fd;
}

/* Descriptors get numbers in turn, in a table of its own: until then it is the target's,
 * as a copy would hold what other threads close. */
static int open_all(void)
{
	struct stat now;
	return raw(SYS_close_range, 0, ~0U, CLOSE_RANGE_UNSHARE) == 0 && open_as(0, "/dev/null", O_RDWR) && raw(SYS_dup, 0) == 1 && raw(SYS_dup, 0) == 2 &&
	       open_as(DP_OUT_MEMORY, "/proc/self/mem", O_RDONLY) && open_as(DP_OUT_TABLE, table.path, O_RDWR | O_NOFOLLOW) &&
	       raw(SYS_newfstatat, DP_OUT_TABLE, "", &now, AT_EMPTY_PATH) == 0 && same(&now, &table.was) && is_as_it_was(&library) &&
	       is_as_it_was(&linker);
}

static void write_hex(char *to, uint64_t v)
{
	for (int i = 0; i < 16; i++)
		to[i] = "0123456789abcdef"[v >> (60 - 4 * i) & 15];
}

static void write_variable(struct launch *l)
{
	const struct dp_ctl *ctl = l->s->ctl;
	struct dp_out_words w = {(uint64_t)ctl, l->s->scratch_size, ctl->reserve, ctl->reserve_size,
				 dp.table->rows.offset};
	char *to = l->variable + text_copy(l->variable, sizeof l->variable, DP_OUT_VARIABLE);
	for (unsigned i = 0; i < sizeof w / sizeof(uint64_t); i++, to += 16)
		write_hex(to, ((const uint64_t *)&w)[i]);
	*to = 0;
}

static void *execute(void *arg)
{
	struct launch *l = arg;
	static const char name[] = DP_PLANNER_NAME;
	const char *argv[] = {name, library.path, 0}, *envp[] = {l->variable, 0};
	raw(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (raw(SYS_getppid) == l->watcher)
		raw(SYS_execve, linker.path, argv, envp);
	return 0;
}

static void *watch(void *arg)
{
	struct launch *l = arg;
	static const char name[] = DP_PLANNER_NAME;
	struct rlimit no_core = {0, 0};
	int status;
	raw(SYS_prctl, PR_SET_NAME, name, 0, 0, 0);
	raw(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	raw(SYS_prlimit64, 0, RLIMIT_CORE, &no_core, 0);
	raw(SYS_setpgid, 0, 0); /* Ctrl-C is for the program */
	l->watcher = raw(SYS_getpid);
	l->s->outside = 1;
	if (raw(SYS_getppid) != l->parent || !open_all() || !dp_map_scratch(l->s)) {
		tell(l, FAILED);
		end_process(0);
	}
	l->prepare(l->s);
	l->s->ctl->outside = 1;
	write_variable(l);
	/* It is gone from our memory when this call returns. */
	long pid = dp_thread(CLONE_VM | CLONE_VFORK | CLONE_UNTRACED | SIGCHLD, stack_of(l, 1, execute), 0);
	tell(l, failed(pid) ? FAILED : LAUNCHED);
	if (!failed(pid))
		raw(SYS_wait4, pid, &status, __WALL, 0);
	end_process(0);
}

/* ---- the target ------------------------------------------------------------ */

/* How far the children have got: to an exec, maybe in vain, or not. */
static uint32_t await_launch(struct launch *l, long watcher, int *reaped)
{
	enum { TICKS = 100 }; /* 2 s */
	struct timespec tick = {0, 20 * 1000 * 1000};
	int status;
	for (int i = 0; i < TICKS && !*reaped && __atomic_load_n(&l->state, __ATOMIC_ACQUIRE) == STARTING; i++) {
		raw(SYS_futex, &l->state, FUTEX_WAIT, STARTING, &tick, 0, 0);
		*reaped = raw(SYS_wait4, watcher, &status, WNOHANG | __WALL, 0) == watcher;
	}
	return __atomic_load_n(&l->state, __ATOMIC_ACQUIRE);
}

/* A copy of a small process is made faster than a program is started. But a copy has its
 * mappings, too: other threads may count who has shared memory, or seal it. */
static int is_worth_it(const struct dp_session *s)
{
	enum { LARGE = 8 << 20, MANY = 64 };
	return s->listed >= MANY || dp_resident() >= LARGE || !dp_single_threaded();
}

static int is_possible(const struct dp_session *s)
{
	enum { MOST_TEXT = 16 << 20 }; /* is read, which may take longer than a copy */
	return linker.path && library.path && table.path && !s->keep && !dp_locks_new() && s->text_size <= MOST_TEXT && !dp_planner_endangers(s);
}

/* An outsider that has come to nothing leaves no trace. */
static void forget(struct dp_session *s)
{
	s->outside = 0;
	if (s->ctl && s->ctl->held)
		raw(SYS_munmap, s->ctl->held, s->ctl->held_size);
	dp_unmap_scratch(s);
}

static struct launch *map_launch(struct dp_session *s, void (*prepare)(struct dp_session *))
{
	long at = raw(SYS_mmap, 0, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (failed(at))
		return 0;
	struct launch *l = (struct launch *)at;
	l->s = s;
	l->prepare = prepare;
	l->parent = raw(SYS_getpid);
	return l;
}

/* Whether the planner has begun; it is gone then, and has said why not if so. */
static int run(struct launch *l, const char **why, long *twin, int *reaped)
{
	*reaped = 0;
	*why = 0;
	*twin = dp_thread(CLONE_VM | CLONE_FILES | CLONE_UNTRACED, stack_of(l, 0, watch), 0);
	uint32_t state = failed(*twin) ? FAILED : await_launch(l, *twin, reaped);
	if (state == LAUNCHED && *reaped && !__atomic_load_n(&l->s->ctl->done, __ATOMIC_ACQUIRE))
		*why = "the planner died";
	else if (state == LAUNCHED)
		*why = dp_await_twin(l->s->ctl, *twin, reaped);
	int begun = state == LAUNCHED && (!*why || __atomic_load_n(&l->s->ctl->begun, __ATOMIC_ACQUIRE));
	if (!failed(*twin))
		dp_finish_twin(*twin, *reaped, begun && !*why); /* the planner ends with its watcher */
	*reaped = 1;
	if (state != STARTING) /* else the second child may still be there */
		raw(SYS_munmap, l, 2 * STACK);
	return begun;
}

/* Reports false if nothing has been done: then a twin has to. */
static int run_outsider(struct dp_session *s, void (*prepare)(struct dp_session *), const char **why, long *twin, int *reaped)
{
	static int in_vain; /* how often it did not even begin */
	enum { ENOUGH = 4 };
	struct launch *l = 0;
	if (in_vain < ENOUGH && is_worth_it(s) && is_possible(s) && !dp_children_elsewhere())
		l = map_launch(s, prepare);
	if (!l)
		return 0;
	if (run(l, why, twin, reaped))
		return 1;
	in_vain++;
	forget(s);
	return 0;
}

/* Whether plans of earlier loads, or for later ones, are worth a copy of this process: an
 * outsider does not know what is free here, where the arenas of such plans lie. While
 * other threads run, nobody does. */
static int is_worth_a_plan(const struct dp_session *s)
{
	enum { MUCH_TEXT = 2 << 20, MANY = 256, MUCH = 256 << 20 }; /* to copy that much takes 10 ms */
	int worth = s->text_size >= MUCH_TEXT || (s->cache == DP_CACHE_KEEP && s->listed <= MANY && dp_resident() < MUCH);
	return s->cache && !s->keep && worth && dp_single_threaded();
}

const char *dp_plan_late(struct dp_session *s, void (*prepare)(struct dp_session *), long *twin, int *reaped)
{
	const char *why;
	/* Without room in the reserve that is kept they get one of their own. */
	s->keep = dp.reserve && dp.reserve_size - dp.table->reserve_used >= dp_reserve_for(s);
	if (!is_worth_a_plan(s))
		s->cache = DP_CACHE_OFF;
	if (!s->cache && run_outsider(s, prepare, &why, twin, reaped))
		return why;
	if (!dp_map_scratch(s))
		return "no address space (ulimit -v?)";
	prepare(s);
	return dp_run_twin(s, twin, reaped);
}
