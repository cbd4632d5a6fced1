/* Bytes as they were before patching. */
#ifndef DYNPROF_ORIGINAL_H
#define DYNPROF_ORIGINAL_H

#include <stdint.h>

#include "base/raw.h"

struct dp_ctl;
void dp_keep_patches(const struct dp_ctl *ctl) HIDDEN;
void dp_undo_in(uint8_t *copy, uint64_t at, uint64_t size) HIDDEN;

#endif
