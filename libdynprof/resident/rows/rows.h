#ifndef DYNPROF_ROWS_H
#define DYNPROF_ROWS_H

#include <stdint.h>
#include <sys/mman.h>

#include "base/layout.h"
#include "base/raw.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

struct dp_row *dp_row_take(uint32_t kind) HIDDEN;
void dp_row_made(struct dp_row *row, long tid) HIDDEN;
/* Its thread counts there no more. */
void dp_row_end(struct dp_row *row) HIDDEN;
void dp_rows_start(struct dp_row *row) HIDDEN;
void dp_rows_begin(struct dp_row *row) HIDDEN;
void dp_rows_stock(void) HIDDEN;

#endif
