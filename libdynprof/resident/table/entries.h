/* The table's objects, functions, strings and events (internal/table/layout/layout.go). A
 * view is the table, wherever it is mapped. */
#ifndef DYNPROF_ENTRIES_H
#define DYNPROF_ENTRIES_H

#include <stdint.h>

#include "base/state.h"

static inline const uint8_t *dp_entry_in(const uint8_t *view, uint64_t section, uint64_t i, uint64_t size)
{
	return view + *dp_u64(view, section + DP_SEC_OFFSET) + i * size;
}

/* How many entries of a section are there to read. */
static inline uint32_t dp_in_use(const uint8_t *view, uint64_t section)
{
	return __atomic_load_n(dp_u32(view, section + DP_SEC_COUNT), __ATOMIC_ACQUIRE);
}

static inline const uint8_t *dp_function_at(const uint8_t *view, uint64_t i)
{
	return dp_entry_in(view, DP_HDR_FUNCTIONS, i, DP_FN_ENTRY_SIZE);
}

static inline const uint8_t *dp_object_of(const uint8_t *view, const uint8_t *function)
{
	return dp_entry_in(view, DP_HDR_OBJECTS, *(const uint16_t *)(function + DP_FN_OBJECT), DP_OBJ_ENTRY_SIZE);
}

static inline const char *dp_string(const uint8_t *view, uint32_t offset)
{
	return (const char *)dp_entry_in(view, DP_HDR_STRINGS, offset, 1);
}

static inline int dp_is_counted(const uint8_t *function)
{
	return *dp_u32(function, DP_FN_COUNTER) != DP_NO_COUNTER && function[DP_FN_TACTIC] != DP_REFUSED_TACTIC;
}

/* The run address of a function's entry. */
static inline uint64_t dp_entry_of_function(const uint8_t *view, const uint8_t *function)
{
	return *dp_u64(function, DP_FN_ADDRESS) + *dp_u64(dp_object_of(view, function), DP_OBJ_BIAS);
}

static inline uint8_t *dp_event_at(uint8_t *table, uint64_t slot)
{
	return (uint8_t *)dp_entry_in(table, DP_HDR_EVENTS, slot, DP_EV_ENTRY_SIZE);
}

#endif
