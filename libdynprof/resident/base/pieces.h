/* Small pieces of memory that are never given back. */
#ifndef DYNPROF_PIECES_H
#define DYNPROF_PIECES_H

#include <stdint.h>

#include "base/raw.h"

/* size bytes, a multiple of 8 and much less than a page, all zero; 0 if there are none.
 * Any thread may ask, and any signal handler. */
void *dp_piece(uint64_t size) HIDDEN;

#endif
