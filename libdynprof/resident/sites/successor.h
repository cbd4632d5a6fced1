/* Programs that the program executes. */
#ifndef DYNPROF_SUCCESSOR_H
#define DYNPROF_SUCCESSOR_H

#include "base/raw.h"
#include "base/regs.h"

/* How the program was told to be counted, for who takes its place: our variables, what was
 * put into LD_PRELOAD in front of all else, and our own name there. Before main. */
void dp_successor_keep(char **envp, const char *first, const char *self) HIDDEN;
/* All that is executed has it in its environment. */
void dp_successors_followed(void) HIDDEN;

/* At the kernel site of an execve or execveat: whether dp_executed shall be called if it comes back. */
int dp_executes(struct dp_regs *r) HIDDEN;
void dp_executed(struct dp_regs *r) HIDDEN;

#endif
