/* The twin: a short-lived copy of the target in which Go runs. It gives back
 * what it inherited that others may wait on, and starts the Go runtime by
 * hand. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "_cgo_export.h"
#include "base/own.h"
#include "base/pages.h"
#include "base/state.h"
#include "base/tasks.h"
#include "base/text.h"
#include "base/whole.h"
#include "plans/late.h"
#include "stubs/arenas.h"
#include "twin.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* The Go runtime's start entry; goinit.ld keeps it out of DT_INIT_ARRAY. */
typedef void (*go_init)(int, char **, char **);
extern go_init dp_goinit[] HIDDEN;

/* goinit.ld, entry.S */
extern const char __ehdr_start HIDDEN;
extern uint8_t dp_go_relro[], dp_go_relro_end[] HIDDEN;
extern const struct { uint64_t at, count; } dp_lazy HIDDEN;

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* None of the target's: a pipe's reader waits for every writer. A late twin shares
 * their table until it has its own, so that what other threads close meanwhile is
 * closed. */
static void close_all(int shared)
{
	struct rlimit limit = {0, 0};
	if (raw(SYS_close_range, 0, ~0U, CLOSE_RANGE_UNSHARE) == 0)
		return;
	if (shared && raw(SYS_unshare, CLONE_FILES) != 0)
		end_process(1);
	raw(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &limit);
	for (rlim_t fd = 0; fd < limit.rlim_cur && fd < 65536; fd++)
		raw(SYS_close, fd);
}

/* Go writes pages to stderr when it dies; the shim says the one line. */
static void leave_descriptors(int shared)
{
	close_all(shared);
	long null = raw(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
	for (long fd = 0; fd < 3; fd++)
		if (!failed(null) && fd != null)
			raw(SYS_dup3, null, fd, 0);
}

/* Go's runtime reads /proc/self/cgroup where it starts, whatever is said of that, and
 * waits if it is a pipe of somebody's. It opens nothing that matters before dp_plan raises
 * the limit again; meanwhile it opens nothing. */
static void open_nothing(void)
{
	struct rlimit limit;
	if (raw(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &limit) == 0) {
		limit.rlim_cur = 0;
		raw(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, 0);
	}
}

static void raise_limit(int which)
{
	struct rlimit limit;
	if (raw(SYS_prlimit64, 0, which, 0, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		raw(SYS_prlimit64, 0, which, &limit, 0);
	}
}

/* Where memory is short who plans goes first, not the program, which may be larger: it
 * runs on uncounted (proc_pid_oom_score_adj(5)). */
static struct { char text[16]; long size; } turn_before;

static void set_turn(const char *text, long size)
{
	long fd = dp_open_kernels(AT_FDCWD, "/proc/self/oom_score_adj", O_RDWR);
	if (failed(fd))
		return;
	if (!turn_before.size)
		turn_before.size = raw(SYS_read, fd, turn_before.text, sizeof turn_before.text);
	if (size > 0)
		raw(SYS_pwrite64, fd, text, size, 0);
	raw(SYS_close, fd);
}

static void go_first(void)
{
	static const char most[] = "1000";
	set_turn(most, sizeof most - 1);
}

static void own_limits(void)
{
	static const int raised[] = {RLIMIT_AS, RLIMIT_DATA, RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_CPU};
	for (unsigned i = 0; i < sizeof raised / sizeof *raised; i++)
		raise_limit(raised[i]);
	struct rlimit no_core = {0, 0};
	raw(SYS_prlimit64, 0, RLIMIT_CORE, &no_core, 0);
	struct { void *handler; unsigned long flags; void *restorer; uint64_t mask; } ignore = {SIG_IGN, 0, 0, 0};
	raw(SYS_rt_sigaction, SIGXFSZ, &ignore, 0, 8);
}

/* What the program has asked of its CPU holds for a copy of it, too: Go would be
 * refused, or interrupted by arithmetic of its own. */
static void own_cpu(void)
{
	static const uint32_t nothing_traps = 0x1f80;
	if (dp_no_tsc) /* Go asks for the time by the vdso */
		raw(SYS_prctl, PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0);
	raw(SYS_arch_prctl, ARCH_SET_CPUID, 1); /* an error where it cannot be refused */
	__asm__ volatile("fninit; ldmxcsr %0" : : "m"(nothing_traps));
}

/* What is mapped before Go maps more of its own, which the target does not have: plans
 * that are kept name addresses, and they have to be free in it, not here. */
static void note_maps(struct dp_ctl *ctl)
{
	struct dp_whole maps = dp_read_whole("/proc/self/maps");
	ctl->maps = (uint64_t)maps.text;
	ctl->maps_size = maps.size;
}

/* Makes the relocations of what is only Go's: nothing of it is used before. */
static void relocate_go(void)
{
	uint64_t base = (uint64_t)&__ehdr_start;
	const Elf64_Rela *r = (const Elf64_Rela *)(base + dp_lazy.at), *end = r + dp_lazy.count;
	uint64_t closed = (uint64_t)dp_go_relro, size = (uint64_t)dp_go_relro_end - closed;
	raw(SYS_mprotect, closed, size, PROT_READ | PROT_WRITE);
	raw(SYS_madvise, closed, size, MADV_POPULATE_WRITE); /* a fault each, else; a kernel before 5.14 does not know how */
	for (; r < end; r++)
		*(uint64_t *)(base + r->r_offset) = base + (uint64_t)r->r_addend;
	raw(SYS_mprotect, closed, size, PROT_READ);
}

/* Go finds its environment and the auxiliary vector behind the argument
 * vector, so the block has the shape of a process's stack. */
static void start_go(const Elf64_auxv_t *auxv)
{
	struct block {
		char *argv[2];
		char *envp[4];
		Elf64_auxv_t auxv[];
	};
	uint64_t n = auxv_count(auxv);
	long at = raw(SYS_mmap, 0, pages(sizeof(struct block) + n * sizeof *auxv), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(at))
		end_process(1);
	struct block *b = (struct block *)at;
	/* No collection in milliseconds of life; no cgroup descriptors. */
	*b = (struct block){{"dynprof"}, {"GOGC=off", "GODEBUG=containermaxprocs=0,updatemaxprocs=0", "GOTRACEBACK=none"}};
	for (uint64_t i = 0; i < n; i++)
		b->auxv[i] = auxv[i];
	relocate_go();
	open_nothing();
	dp_goinit[0](1, b->argv, b->envp);
}

static void map_zeros(uint64_t at, uint64_t size)
{
	raw(SYS_mmap, at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* The libc functions that are called here may be counted: not in the target's
 * row, and without events. The discard row is private, a copy by now; zeros in
 * place of the table make it seem full, and the fired words another's. */
static void stop_counting(void)
{
	if (!dp.shared)
		raw(SYS_arch_prctl, ARCH_SET_GS, dp.discard);
	for (uint32_t i = 0; i < dp_arenas_known(); i++) {
		const struct dp_known *k = dp_arena_number(i);
		if (k->view_size && !k->gone)
			map_zeros(k->view, k->view_size);
	}
	map_zeros((uint64_t)dp.table, section_end(&dp.table->fired));
}

/* Maps the table, up to its rows, once more: stop_counting takes away the mapping
 * that the target has. */
static void map_view(struct dp_ctl *ctl)
{
	uint64_t size = dp.table->rows.offset;
	long at = raw(SYS_mremap, dp.table, 0, size, MREMAP_MAYMOVE);
	ctl->view = failed(at) ? 0 : (uint64_t)at;
	ctl->view_size = size;
}

/* Who adds objects holds a word of the table, with its thread number. If it dies,
 * the kernel marks that: the word is the pending entry of this thread's robust list
 * (Documentation/locking/robust-futex-ABI.rst). Numbers are of a pid namespace, and
 * processes of others may add, too: who dies with the entry set ends the turn of
 * whoever has its number there. So it is set only to take the word when that looks
 * free, and for the turn itself, not to wait. */
static struct {
	void *next;
	long offset;
	void *pending;
} robust;

/* Whether a thread is stopped, by a signal or by who traces it: it adds by itself where it
 * starts with plans, and may stay so for ever. Of another pid namespace it is not told. */
static int is_stopped(uint32_t thread)
{
	char name[16], state = 0;
	struct dp_text_buffer b = dp_buffer(name, sizeof name);
	dp_put_number(&b, thread, 10);
	long proc = dp_open_kernels(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY);
	if (!failed(proc)) {
		state = dp_read_state(proc, name);
		raw(SYS_close, proc);
	}
	return state == 'T' || state == 't';
}

/* Returns 0 if whose turn it is stays stopped for some ticks: then nobody is planned, and
 * the program goes on. */
static int await_turn(struct dp_ctl *ctl)
{
	enum { TICKS = 5 };
	uint32_t *word = &((struct dp_header *)ctl->view)->appender, self = (uint32_t)raw(SYS_gettid);
	robust.next = &robust;
	raw(SYS_set_robust_list, &robust, sizeof robust);
	struct timespec tick = {0, 20 * 1000 * 1000};
	int stopped = 0;
	for (uint32_t now = __atomic_load_n(word, __ATOMIC_ACQUIRE);;) {
		int free = !(now & FUTEX_TID_MASK);
		uint32_t next = free ? self | (now & FUTEX_WAITERS) : now | FUTEX_WAITERS;
		__atomic_store_n(&robust.pending, free ? word : 0, __ATOMIC_RELEASE);
		if (!__atomic_compare_exchange_n(word, &now, next, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			continue;
		if (free)
			return 1;
		raw(SYS_futex, word, FUTEX_WAIT, next, &tick, 0, 0);
		stopped = is_stopped(now & FUTEX_TID_MASK) ? stopped + 1 : 0;
		if (stopped == TICKS)
			return 0;
		now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	}
}

static void end_turn(struct dp_ctl *ctl)
{
	uint32_t *word = &((struct dp_header *)ctl->view)->appender;
	uint32_t before = __atomic_exchange_n(word, 0, __ATOMIC_ACQ_REL);
	__atomic_store_n(&robust.pending, 0, __ATOMIC_RELEASE);
	if (before & FUTEX_WAITERS)
		raw(SYS_futex, word, FUTEX_WAKE, 1, 0, 0, 0);
}

/* The planner is done, and stays: nobody's child, in a session of its own, under
 * a name of its own. Its table is where it is until its processes are gone. */
static _Noreturn void stay(struct dp_ctl *ctl)
{
	static const char name[] = "dynprof-agent";
	set_turn(turn_before.text, turn_before.size);
	raw(SYS_prctl, PR_SET_NAME, name, 0, 0, 0);
	char **argv = (char **)ctl->argv;
	for (int i = 0; argv[i]; i++)
		for (size_t k = 0, n = text_len(argv[i]); k < n; k++)
			argv[i][k] = i == 0 && k < sizeof name ? name[k] : 0;
	dp_agent((uintptr_t)ctl);
	end_process(0);
}

/* Ends when the twin has planned, or has died. Then that one is a child of
 * init, or of what has taken its place: the target does not see it among its
 * children, and its end sends nobody a signal that did not expect one. */
void dp_twin_apart(struct dp_ctl *ctl, const Elf64_auxv_t *auxv, long parent)
{
	raw(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	long self = raw(SYS_getpid);
	if (raw(SYS_getppid) != parent)
		end_process(1);
	leave_descriptors(0);
	long twin = raw(SYS_clone, CLONE_UNTRACED, 0, 0, 0, 0);
	if (twin == 0)
		dp_twin(ctl, auxv, self);
	struct timespec tick = {0, 20 * 1000 * 1000};
	int status;
	while (!failed(twin) && !__atomic_load_n(&ctl->done, __ATOMIC_ACQUIRE)) {
		raw(SYS_futex, &ctl->done, FUTEX_WAIT, 0, &tick, 0, 0);
		if (raw(SYS_wait4, twin, &status, WNOHANG | __WALL, 0) == twin)
			break;
	}
	end_process(0);
}

/* A thread that blocks SIGTRAP is killed by a trap, and the libc functions that
 * are called here may have some. */
static void unblock_traps(void)
{
	uint64_t trap = 1ULL << (SIGTRAP - 1);
	raw(SYS_rt_sigprocmask, SIG_UNBLOCK, &trap, 0, 8);
}

void dp_plan_here(struct dp_ctl *ctl, const Elf64_auxv_t *auxv, int stays)
{
	__atomic_store_n(&ctl->planner, (uint32_t)raw(SYS_getpid), __ATOMIC_RELEASE);
	own_limits();
	own_cpu();
	go_first();
	if (ctl->cache)
		note_maps(ctl);
	start_go(auxv);
	if (ctl->view && !await_turn(ctl))
		end_process(0);
	dp_plan((uintptr_t)ctl);
	if (ctl->view)
		end_turn(ctl);
	stays = stays && ctl->status && (ctl->keep || ctl->serves);
	if (stays)
		raw(SYS_prctl, PR_SET_PDEATHSIG, 0, 0, 0, 0);
	__atomic_store_n(&ctl->done, 1, __ATOMIC_RELEASE);
	raw(SYS_futex, &ctl->done, FUTEX_WAKE, 2, 0, 0, 0);
	if (ctl->cache && ctl->status && !stays) /* an agent saves while it takes requests */
		dp_save();
	__atomic_store_n(&ctl->saved, 1, __ATOMIC_RELEASE);
	raw(SYS_futex, &ctl->saved, FUTEX_WAKE, 1, 0, 0, 0);
	if (stays)
		stay(ctl);
	end_process(0);
}

void dp_twin(struct dp_ctl *ctl, const Elf64_auxv_t *auxv, long parent)
{
	static const char name[] = DP_PLANNER_NAME;
	raw(SYS_prctl, PR_SET_NAME, name, 0, 0, 0);
	/* Ends with the target. If that is gone already, nobody will ask. */
	raw(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (raw(SYS_getppid) != parent)
		end_process(1);
	int stays = (ctl->keep || ctl->listen) && !ctl->late;
	if (stays)
		raw(SYS_setsid);
	else
		raw(SYS_setpgid, 0, 0); /* Ctrl-C is for the program */
	if (ctl->late) {
		map_view(ctl);
		stop_counting();
	}
	if (ctl->handles_traps)
		unblock_traps();
	leave_descriptors(ctl->late != 0);
	dp_plan_here(ctl, auxv, stays);
}

uint64_t dp_self(void) { return (uint64_t)&__ehdr_start; }
