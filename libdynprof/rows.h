#ifndef DYNPROF_ROWS_H
#define DYNPROF_ROWS_H

#include <stdint.h>

#include "raw.h"

uint8_t *dp_row_at(uint32_t row) HIDDEN;
uint8_t *dp_row_take(uint32_t kind) HIDDEN;
void dp_row_made(uint8_t *row, long tid) HIDDEN;
void dp_rows_begin(uint8_t *row) HIDDEN;

#endif
