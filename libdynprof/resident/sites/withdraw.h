/* Leaving a process that goes on without us (withdraw.c). */
#ifndef DYNPROF_WITHDRAW_H
#define DYNPROF_WITHDRAW_H

#include "base/raw.h"
#include "base/regs.h"

/* A prctl at a kernel site: if it turns Syscall User Dispatch on we withdraw. */
void dp_dispatch_comes(struct dp_regs *r) HIDDEN;
/* Withdraws before a kernel site's system call, which is made where the program has
 * it. */
void dp_withdraw(struct dp_regs *r) HIDDEN;
/* Has a kernel site's system call be made where the program has it. */
void dp_own_address(struct dp_regs *r) HIDDEN;

#endif
