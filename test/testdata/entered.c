/* libdynprof/resident/base/filters.c: who has asked before a filter came is waited for. */
static int limit;
#define MOST_NAPS limit
#include "../../libdynprof/resident/base/filters.c"
#include "../../libdynprof/resident/base/verdict.c"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

int dp_no_tsc;

#define CHECK(is) (void)((is) || (printf("line %d: %s\n", __LINE__, #is), failed = 1))

static uint32_t entered, left, ended;

/* It has asked, and then gets no CPU for a while. */
static void *is_late(void *arg)
{
	int on = dp_enter(SYS_getpid, 0, 0, 0, 0, 0, 0);
	__atomic_store_n(&entered, 1, __ATOMIC_SEQ_CST);
	usleep(200 * 1000);
	__atomic_store_n(&left, 1, __ATOMIC_SEQ_CST);
	dp_leave(on);
	return arg;
}

/* One of two that are hardly ever outside, at least one of them inside at any time. */
static void *is_inside(void *arg)
{
	while (!__atomic_load_n(&ended, __ATOMIC_SEQ_CST)) {
		int on = dp_enter(SYS_getpid, 0, 0, 0, 0, 0, 0);
		usleep(5000);
		if (on)
			dp_leave(on);
	}
	return arg;
}

int main(void)
{
	struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog program = {1, code};
	struct dp_regs r = {.rax = SYS_seccomp, .rdi = SECCOMP_SET_MODE_FILTER, .rdx = (uint64_t)&program};
	pthread_t late, busy[2];
	int failed = 0;
	limit = 1 << 30;
	CHECK(!dp_filtered());
	pthread_create(&late, 0, is_late, 0);
	while (!__atomic_load_n(&entered, __ATOMIC_SEQ_CST))
		usleep(1000);
	dp_filter_comes(&r, dp_filter_read(&r));
	CHECK(__atomic_load_n(&left, __ATOMIC_SEQ_CST) && dp_filtered());
	pthread_join(late, 0);
	for (int i = 0; i < 2; i++)
		pthread_create(&busy[i], 0, is_inside, 0);
	for (int i = 0; i < 20; i++) /* comes to an end, though there is always somebody inside */
		dp_filter_comes(&r, dp_filter_read(&r));
	__atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 2; i++)
		pthread_join(busy[i], 0);
	CHECK(!dp_inside[0] && !dp_inside[1]);
	int on = dp_enter(SYS_getpid, 0, 0, 0, 0, 0, 0); /* a handler that struck there: it ends all the same */
	limit = 20;
	dp_filter_comes(&r, dp_filter_read(&r));
	dp_leave(on);
	CHECK(!dp_inside[0] && !dp_inside[1]);
	return failed;
}
