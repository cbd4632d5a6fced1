#ifndef DYNPROF_ROWS_H
#define DYNPROF_ROWS_H

#include <stdint.h>
#include <sys/mman.h>

#include "base/layout.h"
#include "base/raw.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Rows are mapped in chunks (state.h). */
static inline uint32_t dp_first_of(uint32_t chunk) { return chunk ? 1u << chunk : 0; }
static inline uint32_t dp_rows_of(uint32_t chunk) { return chunk ? 1u << chunk : 2; }
static inline uint32_t dp_chunk_of(uint32_t row) { return row < 2 ? 0 : 31 - (uint32_t)__builtin_clz(row); }

uint8_t *dp_map_chunk(uint32_t chunk) HIDDEN;
struct dp_row *dp_row_at(uint32_t row) HIDDEN;
struct dp_row *dp_row_take(uint32_t kind) HIDDEN;
void dp_row_made(struct dp_row *row, long tid) HIDDEN;
/* Its thread counts there no more. */
void dp_row_end(struct dp_row *row) HIDDEN;
/* The row, or the discard row, to which this thread's GS base leads. */
struct dp_row *dp_own_row(void) HIDDEN;
/* A row that nobody had before, mapped and with room; 0 if there is none. */
struct dp_row *dp_row_fresh(void) HIDDEN;
void dp_rows_start(struct dp_row *row) HIDDEN;
void dp_rows_begin(struct dp_row *row) HIDDEN;
void dp_rows_stock(void) HIDDEN;
struct dp_row *dp_row_map(uint32_t row) HIDDEN;
void dp_note_former(struct dp_row *row) HIDDEN;
int dp_make_room(void *at, uint64_t size) HIDDEN;

#endif
