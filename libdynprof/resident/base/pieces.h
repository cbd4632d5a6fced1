/* Memory that is never given back. */
#ifndef DYNPROF_PIECES_H
#define DYNPROF_PIECES_H

#include <stdint.h>

#include "base/raw.h"

/* size bytes, a multiple of 8 and much less than a page, all zero; 0 if there are none.
 * Any thread may ask, and any signal handler; so with those below. */
void *dp_piece(uint64_t size) HIDDEN;

/* Pages, all zero, for size bytes; populate: most of them will be used, so that they are
 * fetched at once. */
void *dp_zeros(uint64_t size, int populate) HIDDEN;

#endif
