/* Where rows are in this process. */
#ifndef DYNPROF_CHUNKS_H
#define DYNPROF_CHUNKS_H

#include <stdint.h>

#include "base/layout.h"
#include "base/raw.h"

/* Rows are mapped in chunks (state.h). */
static inline uint32_t dp_first_of(uint32_t chunk) { return chunk ? 1u << chunk : 0; }
static inline uint32_t dp_rows_of(uint32_t chunk) { return chunk ? 1u << chunk : 2; }
static inline uint32_t dp_chunk_of(uint32_t row) { return row < 2 ? 0 : 31 - (uint32_t)__builtin_clz(row); }

uint8_t *dp_map_chunk(uint32_t chunk) HIDDEN;
struct dp_row *dp_row_at(uint32_t row) HIDDEN;
struct dp_row *dp_row_map(uint32_t row) HIDDEN;
int dp_make_room(void *at, uint64_t size) HIDDEN;
/* The row, or the discard row, to which this thread's GS base leads. */
struct dp_row *dp_own_row(void) HIDDEN;

#endif
