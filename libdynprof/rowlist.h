#ifndef DYNPROF_ROWLIST_H
#define DYNPROF_ROWLIST_H

#include <stdint.h>

#include "raw.h"

void dp_push(uint64_t *stack, uint8_t *row) HIDDEN;
uint8_t *dp_pop(uint64_t *stack) HIDDEN;
void dp_push_free(uint8_t *row) HIDDEN;
uint8_t *dp_pop_free(void) HIDDEN;
void dp_list_row(uint8_t *row) HIDDEN;
uint32_t *dp_rows_listed(uint32_t chunk) HIDDEN;
int dp_grow_row(uint8_t *row) HIDDEN;
int dp_rows_grow(uint32_t counters) HIDDEN;
uint64_t dp_rows_total(uint32_t counter) HIDDEN;

#endif
