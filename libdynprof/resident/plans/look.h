/* What an object's mapped bytes tell without a planner. */
#ifndef DYNPROF_LOOK_H
#define DYNPROF_LOOK_H

#include <link.h>
#include <stdint.h>

#include "base/ctl.h"
#include "base/raw.h"

/* Fills in where an object that came later lies, with what is in no file (.bss), whoever planned it;
 * without headers it stays as it is. */
void dp_extent_of(struct dp_object *o) HIDDEN;

/* Bytes of code of an object, a guess if its header is not mapped. */
uint64_t dp_text_of(const struct link_map *l) HIDDEN;

/* 0 if the object does not take the GS segment; else why it may: it does
 * (DP_MISSED_USES_GS), or it cannot be looked at (DP_MISSED_UNSEEN). Careful: only
 * system calls that dlopen has just made. */
uint32_t dp_gs_of(const struct link_map *l, int careful) HIDDEN;

#endif
