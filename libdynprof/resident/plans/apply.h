/* Applying a plan. There is one thread, or nobody runs in the new text. */
#ifndef DYNPROF_APPLY_H
#define DYNPROF_APPLY_H

#include <stdint.h>

#include "base/ctl.h"
#include "base/raw.h"

const char *dp_map_arenas(const struct dp_ctl *ctl) HIDDEN;
void dp_unmap_arenas(const struct dp_ctl *ctl) HIDDEN;
/* Maps the shared row where the arenas' stubs find it; the table is mapped. */
const char *dp_map_views(const struct dp_ctl *ctl) HIDDEN;
/* Returns how many functions could not be patched. */
uint32_t dp_apply_patches(const struct dp_ctl *ctl) HIDDEN;
void dp_unmap_copy(struct dp_copy *c) HIDDEN;
/* Unmaps copies of texts that have not taken their places. */
void dp_drop_copies(const struct dp_ctl *ctl) HIDDEN;

#endif
