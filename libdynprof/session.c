/* Scratch memory, and the twin that works in it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "bar.h"
#include "base/lock.h"
#include "base/mapped.h"
#include "base/memory.h"
#include "base/pages.h"
#include "base/state.h"
#include "base/tasks.h"
#include "plans/scratch.h"
#include "session.h"
#include "twin.h"

/* The most that a planner may compute, and how many times that on the clock, as others may want
 * the CPUs; and the most without going on. */
enum { STUCK_MS = 2000 };
#ifndef TWIN_MS /* test/testdata/patience.c has not so much time */
#define TWIN_MS (30 * 1000)
#define OTHERS 5
#endif
#define BLOCKS_MS (4 * TWIN_MS)

static long map_pages(uint64_t near, uint64_t size, int prot)
{
	return raw(SYS_mmap, near, size, prot, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* A file without a name, whose descriptor stays: who calls has a table of his own. */
static void *map_file(uint64_t size, int prot)
{
	long fd = raw(SYS_memfd_create, "dynprof", 0);
	if (failed(fd) || raw(SYS_ftruncate, fd, size) != 0)
		return 0;
	long at = raw(SYS_mmap, 0, size, prot, MAP_SHARED | MAP_NORESERVE, fd, 0);
	return failed(at) ? 0 : (void *)at;
}

/* Where new mappings are locked, all their pages would be fetched. */
static void *map_shared(const struct dp_session *s, uint64_t size, int prot)
{
	if (s->outside)
		return map_file(size, prot);
	/* What goes before main lies where no library's arena shall. */
	uint64_t near = s->keep || dp.table ? 0 : dp_far_below(size);
	long at = map_pages(near, size, dp_locks_new() ? PROT_NONE : prot);
	if (!failed(at) && dp_locks_new()) {
		raw(SYS_munlock, at, size);
		if (raw(SYS_mprotect, at, size, prot) != 0) { /* no code: PR_SET_MDWE */
			raw(SYS_munmap, at, size);
			at = map_pages(near, size, prot);
		}
	}
	return failed(at) ? 0 : (void *)at;
}

static uint64_t session_takes(const struct dp_session *s) { return stubs_take(s, dp_space_is_short()); }

uint64_t dp_reserve_for(const struct dp_session *s) { return session_takes(s) * copies_take(s); }

/* Room of a reserve that stays, for objects that come later. It is not the program's
 * address space: of the shared pages the first is mapped, and by that the others can
 * be (mremap with an old size of 0). */
enum { LATE_RESERVE = 256 << 20, RESERVE_STAYS = DP_PAGE_SIZE };

static int is_kept(const struct dp_ctl *ctl) { return ctl->keep && ctl->reserve == (uint64_t)dp.reserve; }

int dp_space_is_short(void)
{
	struct rlimit space = {0, 0};
	return raw(SYS_prlimit64, 0, RLIMIT_AS, 0, &space) == 0 && space.rlim_cur != RLIM_INFINITY;
}

/* Maps the reserve that is kept for a while: all of it, since other processes may
 * come to use more meanwhile, or, in little address space, what is used and as much
 * as this session takes. */
static int map_reserve(struct dp_session *s)
{
	uint64_t size = dp.reserve_size;
	if (dp_space_is_short())
		size = pages(dp.table->reserve_used) + dp_reserve_for(s);
	long at = raw(SYS_mremap, dp.reserve, 0, size, MREMAP_MAYMOVE);
	s->ctl->reserve = failed(at) ? 0 : (uint64_t)at;
	s->ctl->reserve_size = size;
	return !failed(at);
}

int dp_map_scratch(struct dp_session *s)
{
	uint64_t reserve = dp_reserve_for(s);
	s->scratch_size = pages(ctl_size(s));
	struct dp_ctl *ctl = map_shared(s, s->scratch_size, PROT_READ | PROT_WRITE);
	if (!ctl)
		return 0;
	lay_lists(ctl, s);
	s->ctl = ctl;
	ctl->keep = (uint64_t)s->keep;
	ctl->listen = (uint64_t)s->listen;
	ctl->blocks = (uint64_t)s->blocks;
	ctl->cache = (uint64_t)s->cache;
	if (s->keep && dp.reserve) {
		if (map_reserve(s))
			return 1;
		s->keep = 0;
		ctl->keep = 0;
	}
	/* Executable from the start: under PR_SET_MDWE it cannot become so. */
	uint64_t more = s->keep ? LATE_RESERVE : 0;
	ctl->reserve = (uint64_t)map_shared(s, reserve + more, PROT_READ | PROT_EXEC);
	if (!ctl->reserve && s->blocks) { /* little address space: there are fewer copies */
		reserve = session_takes(s);
		ctl->reserve = (uint64_t)map_shared(s, reserve + more, PROT_READ | PROT_EXEC);
	}
	if (!ctl->reserve && more) { /* little address space: without room for later objects */
		more = 0;
		ctl->reserve = (uint64_t)map_shared(s, reserve, PROT_READ | PROT_EXEC);
	}
	reserve += more;
	ctl->reserve_size = reserve;
	if (ctl->reserve)
		return 1;
	dp_unmap_scratch(s);
	return 0;
}

void dp_unmap_scratch(struct dp_session *s)
{
	if (!s->ctl)
		return;
	uint64_t stays = is_kept(s->ctl) ? RESERVE_STAYS : 0;
	if (s->ctl->reserve)
		raw(SYS_munmap, s->ctl->reserve + stays, s->ctl->reserve_size - stays);
	raw(SYS_munmap, s->ctl, s->scratch_size);
	s->ctl = 0;
}

static int64_t milliseconds(long clock)
{
	struct timespec t = {0, 0};
	raw(SYS_clock_gettime, clock, &t);
	return t.tv_sec * 1000 + t.tv_nsec / (1000 * 1000);
}

/* What a planner has done. */
struct progress {
	uint32_t pid; /* its own, once it runs, or the twin's */
	uint32_t beats;
	int64_t user;    /* ms that it has computed */
	int64_t since;   /* when it was so */
	uint64_t ran;    /* ns, with the kernel's work for it: when half of STUCK_MS had gone by since; 0 before */
};

/* Whether it wants a CPU and has had none for most of the time since then: all are
 * taken, and it is nice. Who is short of memory waits for that, or has the kernel at
 * work. */
static int is_starved(const struct progress *p, uint32_t pid)
{
	uint64_t ran;
	return dp_runnable(pid, &ran) && ran - p->ran < STUCK_MS / 8 * 1000000ull;
}

/* Whether the planner has stopped: it is short of memory, and the kernel at work
 * for it without an end, or it is itself stopped. On a machine that is busy it
 * may take long from beat to beat, but computes, or waits for a CPU. */
static int is_stuck(struct progress *p, const struct dp_ctl *ctl, long twin)
{
	enum { VIRTUAL = 1, A_LITTLE = 100 }; /* CPUCLOCK_VIRT of linux/posix-timers.h */
	uint32_t beats = __atomic_load_n(&ctl->beats, __ATOMIC_RELAXED), pid = __atomic_load_n(&ctl->planner, __ATOMIC_ACQUIRE);
	pid = pid ? pid : (uint32_t)twin;
	int64_t now = milliseconds(CLOCK_MONOTONIC), user = milliseconds((long)(int32_t)(~pid << 3 | VIRTUAL));
	if (pid == p->pid && beats == p->beats && user - p->user < A_LITTLE) {
		if (!p->ran && now - p->since > STUCK_MS / 2)
			dp_runnable(pid, &p->ran);
		if (now - p->since <= STUCK_MS)
			return 0;
		if (!is_starved(p, pid))
			return 1;
	}
	*p = (struct progress){pid, beats, user, now, 0};
	return 0;
}

static int took_too_long(const struct progress *p, const struct dp_ctl *ctl, int64_t start)
{
	int64_t most = ctl->blocks ? BLOCKS_MS : TWIN_MS;
	return p->user > most || milliseconds(CLOCK_MONOTONIC) - start > OTHERS * most;
}

/* Waits until the twin is done, is gone, or does not go on. */
static const char *await_twin(struct dp_ctl *ctl, long twin, int *reaped, struct dp_bar *bar)
{
	int64_t start = milliseconds(CLOCK_MONOTONIC);
	struct progress progress = {0, 0, 0, start, 0};
	struct timespec tick = {0, 20 * 1000 * 1000};
	for (;;) {
		dp_bar_tell(bar, ctl, milliseconds(CLOCK_MONOTONIC) - start);
		if (__atomic_load_n(&ctl->done, __ATOMIC_ACQUIRE))
			return ctl->status ? 0 : ctl->message;
		raw(SYS_futex, &ctl->done, FUTEX_WAIT, 0, &tick, 0, 0);
		if (__atomic_load_n(&ctl->done, __ATOMIC_ACQUIRE))
			continue;
		int status;
		if (raw(SYS_wait4, twin, &status, WNOHANG | __WALL, 0) == twin) {
			*reaped = 1;
			if (!__atomic_load_n(&ctl->done, __ATOMIC_ACQUIRE)) /* it is since we looked, and ends then */
				return "the planner died (out of memory or a resource limit?)";
			continue;
		}
		if (is_stuck(&progress, ctl, twin))
			return "the planner did not go on (little memory?)";
		if (took_too_long(&progress, ctl, start))
			return "the planner took too long";
	}
}

const char *dp_await_twin(struct dp_ctl *ctl, long twin, int *reaped)
{
	struct dp_bar bar = {0, 0};
	const char *why = await_twin(ctl, twin, reaped, &bar);
	dp_bar_end(&bar);
	return why;
}

/* Whether processes that lose their parent become our children, whose ends we
 * would be told of: the first process of a pid namespace, a subreaper. */
static int adopts(long pid)
{
	int subreaper = 0;
	raw(SYS_prctl, PR_GET_CHILD_SUBREAPER, &subreaper, 0, 0, 0);
	return pid == 1 || subreaper;
}

/* Whether our children live in another pid namespace than we (unshare --pid
 * without --fork), which each thread may decide for itself. The first of them is its
 * init, and nobody can be made there once that is gone: it must not be the twin.
 * Before it there is nothing behind the link. */
int dp_children_elsewhere(void)
{
	static const char theirs[] = "/proc/thread-self/ns/pid_for_children";
	struct stat here, there;
	if (raw(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/pid", &here, 0) != 0 ||
	    raw(SYS_newfstatat, AT_FDCWD, theirs, &there, AT_SYMLINK_NOFOLLOW) != 0)
		return 0;
	return raw(SYS_newfstatat, AT_FDCWD, theirs, &there, 0) != 0 || there.st_ino != here.st_ino;
}

/* Whether the target would be ended with a planner. That takes less, mostly. */
int dp_planner_endangers(const struct dp_session *s) { return dp_ends_with_it((8 << 20) + 3 * s->text_size); }

/* Whether there is memory for a copy's page tables, which are the target's until the copy
 * runs and asks to be taken first. At the start there is little to copy. */
static int has_memory_to_copy(const struct dp_session *s) { return !s->ctl->late || dp_has_memory(dp_resident() / 512); }

/* CLONE_UNTRACED and no exit signal: neither a debugger nor the program's own
 * wait or SIGCHLD sees the twin. */
const char *dp_run_twin(struct dp_session *s, long *twin, int *reaped)
{
	long parent = raw(SYS_getpid);
	int stays = (s->keep || s->listen) && !s->ctl->late, apart = stays && !adopts(parent);
	s->ctl->pid = (uint32_t)parent;
	*reaped = 1;
	if (dp_planner_endangers(s))
		return "its control group has too little memory for a planner, and is ended as a whole (memory.oom.group)";
	if (!has_memory_to_copy(s))
		return "its control group has too little memory for a copy of it";
	if (dp_children_elsewhere())
		return "its children live in another pid namespace";
	*twin = raw(SYS_clone, CLONE_UNTRACED | (s->ctl->late ? CLONE_FILES : 0), 0, 0, 0, 0);
	if (*twin == 0 && apart)
		dp_twin_apart(s->ctl, s->auxv, parent);
	if (*twin == 0)
		dp_twin(s->ctl, s->auxv, parent);
	if (failed(*twin))
		return "cannot make a process for the planner (a process limit?)";
	*reaped = 0;
	const char *why = dp_await_twin(s->ctl, *twin, reaped);
	stays = stays && (s->keep || s->ctl->serves);
	if (!why && stays && !apart)
		*reaped = 1; /* no wait without __WALL is for it, and it ends after us */
	return why;
}

/* Waits until the twin has written down what later starts can use. If it does not go on
 * it is killed: a file system may not answer. Says why plans are not kept, if it can. */
const char *dp_await_saved(struct dp_ctl *ctl, long twin, int *reaped)
{
	int64_t start = milliseconds(CLOCK_MONOTONIC);
	struct progress progress = {0, 0, 0, start, 0};
	struct timespec tick = {0, 20 * 1000 * 1000};
	int status;
	while (!*reaped && !__atomic_load_n(&ctl->saved, __ATOMIC_ACQUIRE)) {
		const char *why = is_stuck(&progress, ctl, twin)	 ? "writing them did not go on" :
				  took_too_long(&progress, ctl, start) ? "writing them took too long" : 0;
		if (why) {
			raw(SYS_kill, twin, SIGKILL);
			return why;
		}
		raw(SYS_futex, &ctl->saved, FUTEX_WAIT, 0, &tick, 0, 0);
		*reaped = raw(SYS_wait4, twin, &status, WNOHANG | __WALL, 0) == twin;
	}
	return ctl->message[0] ? ctl->message : 0;
}

/* Reaps the twin, which is killed first if its plan is not wanted. */
void dp_finish_twin(long twin, int reaped, int wanted)
{
	int status;
	if (reaped || twin <= 0) /* there is none; 0 and less are groups of processes */
		return;
	if (!wanted)
		raw(SYS_kill, twin, SIGKILL);
	raw(SYS_wait4, twin, &status, __WALL, 0);
}

void dp_finish_late(struct dp_session *s, long twin, int reaped, int wanted)
{
	if (wanted && s->ctl->cache == DP_CACHE_KEEP)
		dp_await_saved(s->ctl, twin, &reaped);
	dp_finish_twin(twin, reaped, wanted);
}
