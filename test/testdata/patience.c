/* libdynprof/session.c with planners that do not come to an end. */
static int limit, others;
#define TWIN_MS limit
#define OTHERS others
#include "../../libdynprof/session.c"
#include "../../libdynprof/resident/base/tasks.c"
#include "../../libdynprof/resident/base/own.c"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct dp_state dp;
int dp_locks_new(void) { return 0; }
int dp_enter(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) { return (void)nr, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, 1; }
void dp_bar_tell(struct dp_bar *b, const struct dp_ctl *ctl, int64_t waited) { (void)b, (void)ctl, (void)waited; }
void dp_bar_end(const struct dp_bar *b) { (void)b; }
void dp_leave(int entered) { (void)entered; }
int dp_ends_with_it(uint64_t bytes) { return bytes == 0; }
int dp_has_memory(uint64_t bytes) { return bytes != 0; }
uint64_t dp_resident(void) { return 1 << 20; }
uint64_t dp_far_below(uint64_t size) { return size & 0; }
void dp_twin(struct dp_ctl *ctl, const Elf64_auxv_t *auxv, long parent) { _exit((ctl != 0) + (auxv != 0) + (parent != 0)); }
void dp_twin_apart(struct dp_ctl *ctl, const Elf64_auxv_t *auxv, long parent) { _exit((ctl != 0) + (auxv != 0) + (parent != 0)); }

/* A planner that spins, and is given a CPU only where nobody else wants it. */
static void starve(pid_t planner)
{
	cpu_set_t all, one;
	sched_getaffinity(0, sizeof all, &all);
	CPU_ZERO(&one);
	for (int n = 0; n < CPU_SETSIZE && !CPU_COUNT(&one); n++)
		if (CPU_ISSET(n, &all))
			CPU_SET(n, &one);
	sched_setaffinity(planner, sizeof one, &one);
	sched_setscheduler(planner, SCHED_IDLE, &(struct sched_param){0});
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sched_setaffinity(0, sizeof one, &one);
		for (;;)
			;
	}
}

/* One that spins is ended by what it has computed: the clock has a day. */
static int await(int beats, int starved, int spins, const char *want)
{
	int reaped = 0, status;
	struct dp_ctl *ctl = map_shared(&(struct dp_session){0}, sizeof *ctl, PROT_READ | PROT_WRITE);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;; starved || spins ? 0 : usleep(10000))
			ctl->beats += (uint32_t)beats;
	}
	if (starved)
		starve(pid);
	ctl->planner = (uint32_t)pid;
	limit = starved ? STUCK_MS + 500 : beats ? 200 : 30000;
	others = spins ? 24 * 3600 * 5 : 1;
	const char *why = dp_await_twin(ctl, pid, &reaped);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	if (why && strstr(why, want) && !reaped)
		return 0;
	printf("%s, not %s\n", why, want);
	return 1;
}

/* A planner that writes for later starts without an end, or dies at it; or is done after some time,
 * with something to be said. */
static int await_saved(int dies, int done, const char *want)
{
	int reaped = 0, status = 0;
	struct dp_ctl *ctl = map_shared(&(struct dp_session){0}, sizeof *ctl, PROT_READ | PROT_WRITE);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (dies)
			_exit(0);
		for (int i = 0; !done || i < 30; i++, usleep(100 * 1000))
			ctl->beats += (uint32_t)done; /* longer than the limit, but that of blocks holds, and others want the CPU */
		text_copy(ctl->message, sizeof ctl->message, "large");
		__atomic_store_n(&ctl->saved, 1, __ATOMIC_RELEASE);
		pause();
	}
	ctl->blocks = (uint64_t)done;
	limit = done ? 2500 : 30000;
	others = 5;
	const char *why = dp_await_saved(ctl, pid, &reaped);
	if (done)
		kill(pid, SIGKILL);
	if (!reaped)
		waitpid(pid, &status, 0);
	if (reaped == dies && (dies || WTERMSIG(status) == SIGKILL) && (why ? want && strstr(why, want) : !want))
		return 0;
	printf("dies %d, done %d: reaped %d, status %d, %s\n", dies, done, reaped, status, why);
	return 1;
}

int main(void)
{
	return await_saved(0, 0, "did not go on") | await_saved(1, 0, 0) | await_saved(0, 1, "large") | await(1, 0, 0, "took too long") | await(1, 0, 1, "took too long") | await(0, 0, 0, "did not go on") | await(0, 1, 0, "took too long");
}
