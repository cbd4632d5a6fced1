/* Executions of loops, of which each row has one for each loop. */
#ifndef DYNPROF_EXECUTIONS_H
#define DYNPROF_EXECUTIONS_H

#include "base/layout.h"
#include "base/raw.h"

/* A child that is forked goes on with its parent's stack, and so might with an execution that
 * the row's last owner was in. */
void dp_forget_executions(struct dp_row *row) HIDDEN;

#endif
