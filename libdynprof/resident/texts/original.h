/* Bytes as they were before patching. */
#ifndef DYNPROF_ORIGINAL_H
#define DYNPROF_ORIGINAL_H

#include <stdint.h>

#include "base/raw.h"

/* Puts what was there into a copy of text. */
void dp_undo_in(uint8_t *copy, uint64_t at, uint64_t size) HIDDEN;

#endif
