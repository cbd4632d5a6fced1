/* libdynprof/resident/sites/slowpath.S: a thread ends, and a context is resumed, with all
 * stacks of ours taken, and with one free; and system calls where the program's stack may be
 * too small, with all of ours taken, for a moment and for ever. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/sidestack.h"
#include "sites/laststack.h"

uint32_t dp_last_stacks_taken, dp_forbidden, dp_side, dp_inside[2], dp_have_wrgsbase, dp_shadowed;
uint64_t dp_filters, dp_withdrawn;
uint32_t dp_files_are;
uint8_t dp_last_stacks[DP_LAST_STACKS][1 << DP_LAST_STACK_SHIFT] __attribute__((aligned(16)));

uint8_t dp_small_stacks, dp_side_stacks[DP_SIDE_STACKS][1 << DP_SIDE_STACK_SHIFT] __attribute__((aligned(16)));
uint32_t dp_side_stacks_taken;

static int wrong, ended, moved, ours, before, aside;

#define CHECK(is) (void)((is) || (printf("line %d: %s\n", __LINE__, #is), wrong = 1))

static void look(int *calls)
{
	uint8_t *here = __builtin_frame_address(0);
	++*calls;
	ours += here >= dp_last_stacks[0] && here < dp_last_stacks[DP_LAST_STACKS];
}

int dp_thread_ends(void)
{
	look(&ended);
	return 1;
}

void dp_moved(uint64_t *context)
{
	(void)context;
	look(&moved);
}

void *dp_before(void *r)
{
	uint8_t *here = __builtin_frame_address(0);
	(void)r;
	++before;
	aside += here >= dp_side_stacks[0] && here < dp_side_stacks[DP_SIDE_STACKS];
	return 0;
}

void dp_after(void *b, void *r) { (void)b, (void)r; }
void dp_forked(void *b) { (void)b; }
void dp_record(uint64_t at, uint64_t home, uint64_t what) { (void)at, (void)home, (void)what; }
void dp_form_access(const void *f, uint64_t home, uint64_t what, const void *r, const uint64_t *rsp) { (void)f, (void)home, (void)what, (void)r, (void)rsp; }
void dp_cross(uint32_t counter, uint64_t from) { (void)counter, (void)from; }
int dp_texts_far(void) { return 1; }
void dp_action_site(void) {}
void dp_signal(void *r) { (void)r; }
void dp_transferred(const void *r);
void dp_transferred(const void *r) { (void)r; }

/* As a thunk does. */
#define SITE(number) \
	"mov $" number ", %%eax\n lea 1f(%%rip), %%rcx\n jmp dp_kernel_site\n .quad 0\n1: syscall\n"

static void *ends(void *arg)
{
	__asm__ volatile("xor %%edi, %%edi\n" SITE("60") "hlt" : : : "memory"); /* exit */
	return arg;
}

static void handler(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info;
	__asm__ volatile("mov %0, %%rsp\n" SITE("15") : : "r"(context) : "memory"); /* rt_sigreturn */
}

static void both(void)
{
	pthread_t t;
	pthread_create(&t, 0, ends, 0);
	pthread_join(t, 0);
	raise(SIGUSR1);
}

/* Of its own CPU time, however busy the machine is. */
static void frees(int signal)
{
	(void)signal;
	dp_side_stacks_taken = DP_NO_SIDE_STACKS | 0xfffe;
}

static void watched(uint32_t taken)
{
	dp_side_stacks_taken = taken;
	__asm__ volatile(SITE("10") : : "D"(0), "S"(0), "d"(0) : "rax", "rcx", "r11", "memory"); /* mprotect */
}

int main(void)
{
	struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	sigset_t mask;
	sigaction(SIGUSR1, &a, 0);
	dp_last_stacks_taken = ~(1u << 31);
	both();
	CHECK(ended == 1 && moved == 1 && ours == 2 && dp_last_stacks_taken == ~(1u << 31));
	dp_last_stacks_taken = ~0u;
	both();
	CHECK(ended == 1 && moved == 2 && ours == 2 && dp_last_stacks_taken == ~0u);
	sigprocmask(SIG_BLOCK, 0, &mask);
	CHECK(!sigismember(&mask, SIGUSR1) && !sigismember(&mask, SIGTERM));
	signal(SIGVTALRM, frees);
	dp_small_stacks = 1;
	watched(DP_NO_SIDE_STACKS);
	CHECK(before == 1 && aside == 1 && dp_side_stacks_taken == DP_NO_SIDE_STACKS);
	setitimer(ITIMER_VIRTUAL, &(struct itimerval){.it_value.tv_usec = 10000}, 0);
	watched(~0u);
	CHECK(before == 2 && aside == 2 && dp_side_stacks_taken == (DP_NO_SIDE_STACKS | 0xfffe));
	watched(~0u);
	CHECK(before == 3 && aside == 2 && dp_side_stacks_taken == ~0u);
	CHECK(!dp_inside[0] && !dp_inside[1]);
	return wrong;
}
