/* The changes of one run of pages. There is one thread, or nobody runs there. */
#ifndef DYNPROF_PATCH_H
#define DYNPROF_PATCH_H

#include "plans/refused.h"
#include "texts/undos.h"

/* Makes those that can be made: each patch whose old bytes are there, the groups of others
 * are refused; and leads calls, where pages may be writable and executable: elsewhere a
 * call goes by way of the entry. */
void dp_patch_text(const struct dp_undo_text *t, struct dp_refused *r) HIDDEN;
/* Takes back those of groups that are refused. */
void dp_unpatch_text(const struct dp_undo_text *t, struct dp_refused *r) HIDDEN;
/* Takes back all that is as we left it. Of pages on which nothing is nothing changes: the
 * object may have been closed, and others' memory lie there. */
void dp_restore_text(const struct dp_undo_text *t) HIDDEN;

#endif
