/* What a signal handler sees when it strikes in code of ours; signals.S uses
 * the offsets. */
#ifndef DYNPROF_SIGNALS_H
#define DYNPROF_SIGNALS_H

/* Handlers that a program can have with the interrupted code shown as its own. */
#define DP_HANDLERS 512
#define DP_ENTRY_SIZE 16 /* of dp_handler_entries */

/* Offsets in ucontext_t (asm/ucontext.h, asm/sigcontext.h). */
#define DP_UC_RIP 168
#define DP_UC_GREGS 40

/* Registers of the interrupted code, by their index in the context. */
#define DP_REG_RAX 13
#define DP_REG_RSP 15
#define DP_REG_RIP 16
#define DP_REG_EFLAGS 17

#define DP_SHOWN_SIZE 96

#ifndef __ASSEMBLER__
#include <stdint.h>
#include "ctl.h"
#include "raw.h"

/* What dp_arrive changed, for dp_depart. */
struct dp_shown {
	uint64_t rip, rsp, rax, eflags;	    /* as they were */
	uint64_t to_rip, to_rsp, to_rax, to_eflags; /* as the handler sees them */
	uint64_t resume; /* where code in the state that the handler sees goes on */
	uint64_t low;	 /* the window, whose other bytes are overwritten */
	uint64_t go;	 /* a Go program: the address that it pushes is never returned to */
	uint64_t reserved;
};
_Static_assert(sizeof(struct dp_shown) == DP_SHOWN_SIZE, "dp_shown");

/* The entry of a handler; itself if there is none left. A slot is written once. */
uint64_t dp_entry_of(uint64_t handler) HIDDEN;
struct action;
/* rt_sigaction with an entry of ours in place of the handler. */
long dp_install(long sig, const struct action *act, struct action *old) HIDDEN;

void dp_note_origins(const struct dp_ctl *ctl) HIDDEN;
void dp_forget_origins(void) HIDDEN;
#endif

#endif
