#include "table/allocs.h"

extern const char dp_allocator[] HIDDEN; /* allocs.S */

uint64_t dp_allocs_entry(void) { return dp_allocs_are() ? (uint64_t)dp_allocator : 0; }
