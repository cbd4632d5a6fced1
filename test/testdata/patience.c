/* libdynprof/session.c with planners that do not come to an end. */
static int limit;
#define TWIN_MS limit
#include "../../libdynprof/session.c"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct dp_state dp;
int dp_locks_new(void) { return 0; }
void dp_twin(struct dp_ctl *ctl, const Elf64_auxv_t *auxv, long parent) { (void)ctl, (void)auxv, (void)parent; }
void dp_twin_apart(struct dp_ctl *ctl, const Elf64_auxv_t *auxv, long parent) { _exit((ctl != 0) + (auxv != 0) + (parent != 0)); }

static int await(int beats, const char *want)
{
	int reaped = 0, status;
	struct dp_ctl *ctl = map_shared(&(struct dp_session){0}, sizeof *ctl, PROT_READ | PROT_WRITE);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;; usleep(10000))
			ctl->beats += (uint32_t)beats;
	}
	ctl->planner = (uint32_t)pid;
	limit = beats ? 200 : 30000;
	const char *why = dp_await_twin(ctl, pid, &reaped);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	if (why && strstr(why, want) && !reaped)
		return 0;
	printf("%s, not %s\n", why, want);
	return 1;
}

int main(void) { return await(1, "took too long") | await(0, "did not go on"); }
