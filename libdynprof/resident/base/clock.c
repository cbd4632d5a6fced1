#include <linux/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "base/filters.h"
#include "base/regs.h"
#include "base/state.h"

/* The vdso reads the time-stamp counter: that is a fault where it is forbidden. */
uint64_t dp_now(int clock)
{
	struct timespec t = {0, 0};
	if (ask(SYS_clock_gettime, clock, &t) != 0 && dp.clock_gettime && !dp_no_tsc)
		dp.clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void dp_tsc_comes(const struct dp_regs *r)
{
	if ((uint32_t)r->rdi == PR_SET_TSC && (uint32_t)r->rsi != PR_TSC_ENABLE)
		dp_no_tsc = 1;
}
