/* The end of threads and processes, at the kernel sites of exit and exit_group. */
#ifndef DYNPROF_ENDS_H
#define DYNPROF_ENDS_H

#include "base/raw.h"

/* Some process shares our memory, or is about to: vfork, clone. */
void dp_memory_shared(void) HIDDEN;

/* Some thread is about to count in the row of the one that makes it. */
void dp_row_shared(void) HIDDEN;
/* Reports whether signals are blocked from here on. */
int dp_thread_ends(void) HIDDEN;
void dp_process_ends(void) HIDDEN;
/* In a forked child: threads that were ending are not there. */
void dp_ends_forked(void) HIDDEN;
/* Nothing counts any more in this process. */
void dp_loose_rows_end(void) HIDDEN;

#endif
