/* Traps, and what the program asked for as to SIGTRAP, which they need. */
#ifndef DYNPROF_TRAPS_H
#define DYNPROF_TRAPS_H

#include <signal.h>
#include <stdint.h>

#include "base/layout.h"
#include "base/raw.h"
#include "base/state.h"

#ifndef SA_RESTORER
#define SA_RESTORER 0x04000000
#endif

#define TRAP_BIT (1ULL << (SIGTRAP - 1))

typedef void (*handler)(int, siginfo_t *, void *);

/* struct sigaction as the kernel has it. */
struct action {
	handler handler;
	uint64_t flags;
	void (*restorer)(void);
	uint64_t mask;
};

/* SIGTRAP is ours from now on, or no more. */
int dp_traps_begin(void) HIDDEN;
void dp_traps_end(void) HIDDEN;

/* Whether this thread asked to have SIGTRAP blocked: kept in its
 * row. Not known once the program has taken GS: then SIGTRAP is not blocked. */

static inline uint32_t dp_trap_blocked(void)
{
	uint32_t v = 0;
	if (dp_stopped())
		return 0;
	__asm__ volatile("movl %%gs:%c1, %0" : "=r"(v) : "i"(DP_ROW_TRAP_BLOCKED));
	return v;
}

static inline void dp_set_trap_blocked(uint32_t v)
{
	if (dp_stopped())
		return;
	__asm__ volatile("movl %0, %%gs:%c1" : : "r"(v), "i"(DP_ROW_TRAP_BLOCKED) : "memory");
}

#endif
