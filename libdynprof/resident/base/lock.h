/* Memory that the program locks. */
#ifndef DYNPROF_LOCK_H
#define DYNPROF_LOCK_H

#include <stdint.h>

#include "base/ctl.h"
#include "base/raw.h"
#include "base/regs.h"

/* Memory of ours; called by one thread at a time. What is mapped of the
 * table is known without. */
void dp_own(uint64_t at, uint64_t size) HIDDEN;
/* What begins there is not ours any more. */
void dp_disown(uint64_t at) HIDDEN;
/* Ranges of addresses: [low, high). */
struct dp_range {
	uint64_t low, high;
};
/* All memory of ours, as far as there is room for most ranges. Returns how many there are.
 * Some may be named twice, or be part of others. */
uint64_t dp_list_owned(struct dp_range *to, uint64_t most) HIDDEN;
/* What a session has mapped, once it is applied. */
void dp_own_session(const struct dp_ctl *ctl) HIDDEN;
/* Whether new mappings are locked, as far as we saw. */
int dp_locks_new(void) HIDDEN;

/* Stands in for an mlockall, where it can. */
void dp_lock_all(struct dp_regs *r) HIDDEN;

#endif
