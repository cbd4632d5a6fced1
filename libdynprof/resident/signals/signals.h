/* What a signal handler sees when it strikes in code of ours; signals.S uses
 * the offsets. */
#ifndef DYNPROF_SIGNALS_H
#define DYNPROF_SIGNALS_H

#include "base/context.h"

/* Handlers that have an entry of their own. */
#define DP_HANDLERS 512
#define DP_ENTRY_SIZE 16 /* of dp_handler_entries */

#define DP_SHOWN_SIZE 128

/* What dp_arrive returns: the context was changed; or it was not, and behind the
 * handler it has to be looked at, or not. */
#define DP_SHOWN 1
#define DP_WATCHED 2
#define DP_PLAIN 0

#ifndef __ASSEMBLER__
#include <signal.h>
#include <stdint.h>

#include "base/raw.h"

/* What dp_arrive changed, for dp_depart. */
struct dp_shown {
	uint64_t rip, rsp, rax, eflags;	    /* as they were */
	uint64_t to_rip, to_rsp, to_rax, to_eflags; /* as the handler sees them */
	uint64_t resume; /* where code in the state that the handler sees goes on */
	uint64_t low;	 /* the window */
	uint32_t go;	 /* a Go program: the address that it pushes is never returned to */
	uint32_t counted; /* it stands behind its function's count */
	uint64_t trip;	 /* it counts trips of a loop: where in the row that has an execution; else 0 */
	uint64_t other; /* another register that is put back: its DP_REG_* and 1; else 0 */
	uint64_t was, to_was; /* what it had, as rax */
	uint64_t word;	 /* where in the row that has what the handler sees; else 0 */
};
_Static_assert(sizeof(struct dp_shown) == DP_SHOWN_SIZE, "dp_shown");

/* A ucontext that names code of the program, at a byte that a patch has overwritten, names
 * its copy. */
void dp_moved(uint64_t *context) HIDDEN;
/* The other way round: one that names code of ours names the program's, in the state in
 * which a handler would see it. Some code stands for none: that goes on where it leads. */
void dp_show(uint64_t *context) HIDDEN;

/* Where our handler of SIGTRAP returns to. */
void dp_trap_return(void) HIDDEN;
/* Where the thunks of restorers lead to. */
void dp_return_site(void) HIDDEN;
/* Enters the handler of a slot as the kernel does. */
void dp_enter_handler(int sig, siginfo_t *info, void *context, const uint64_t *slot) HIDDEN;

#endif

#endif
