/* Scratch memory, and the twin that works in it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "session.h"
#include "state.h"
#include "twin.h"

enum { TWIN_SECONDS = 30 };

/* Whether no other thread runs: another initfirst library may have been
 * before us. Patching is safe only without. Asked first by a system call that
 * the dynamic linker has made too: a seccomp filter may kill at others. */
int dp_single_threaded(void)
{
	struct stat st;
	if (raw(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &st, 0) == 0)
		return st.st_nlink <= 3; /* ., .. and one thread */
	return raw(SYS_unshare, CLONE_THREAD) == 0; /* changes nothing; EINVAL with threads */
}

static void *map_shared(uint64_t size, int prot)
{
	long at = raw(SYS_mmap, 0, size, prot, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return failed(at) ? 0 : (void *)at;
}

/* Stubs take less than the text they count, but for programs of tiny
 * functions; nothing is used until it is written. */
int dp_map_scratch(struct dp_session *s)
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

void dp_unmap_scratch(struct dp_session *s)
{
	if (!s->ctl)
		return;
	if (s->ctl->reserve)
		raw(SYS_munmap, s->ctl->reserve, s->ctl->reserve_size);
	raw(SYS_munmap, s->ctl, s->scratch_size);
}

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
const char *dp_run_twin(struct dp_session *s, long *twin, int *reaped)
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

/* Reaps the twin, which is killed first if its plan is not wanted. */
void dp_finish_twin(long twin, int reaped, int wanted)
{
	int status;
	if (reaped)
		return;
	if (!wanted)
		raw(SYS_kill, twin, SIGKILL);
	raw(SYS_wait4, twin, &status, __WALL, 0);
}
