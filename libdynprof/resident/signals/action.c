/* What the program asks of rt_sigaction. */
#define _GNU_SOURCE
#include "base/filters.h"
#include "base/mapped.h"
#include "base/state.h"
#include "signals/action.h"
#include "signals/handlers.h"
#include "signals/signals.h"
#include "signals/sigsites.h"
#include "signals/traps.h"

/* The handler on_fault of a translator's callbacks becomes the default, as the program
 * has it: what it returns by is ours. */
void dp_handlers_given(void)
{
	struct action has, program;
	for (long sig = 1; sig <= 64; sig++) {
		if (ask(SYS_rt_sigaction, sig, 0, &has, 8) != 0)
			continue;
		long ret = dp_handles_traps ? dp_trap_action(sig, 0, &program) : dp_install(sig, 0, &program);
		if (ret == 0 && !same_bytes(&has, &program, sizeof has))
			ask(SYS_rt_sigaction, sig, &program, 0, 8);
	}
	dp_handles_traps = 0;
}

/* Stands in for rt_sigaction. */
long dp_action(long sig, const struct action *act, struct action *old, long size, uint64_t stack) HIDDEN;
long dp_action(long sig, const struct action *act, struct action *old, long size, uint64_t stack)
{
	struct action asked = {0};
	if (size != 8 || (act && !dp_read_argument(&asked, (uint64_t)act, sizeof asked, stack)))
		return raw(SYS_rt_sigaction, sig, act, old, size);
	if (act)
		act = &asked;
	if (dp_handles_traps)
		return dp_trap_action(sig, act, old);
	return dp_install(sig, act, old);
}
