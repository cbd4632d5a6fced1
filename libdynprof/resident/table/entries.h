/* The table's objects, functions, strings and events (internal/table/layout/layout.go). A
 * view is the table, wherever it is mapped. */
#ifndef DYNPROF_ENTRIES_H
#define DYNPROF_ENTRIES_H

#include <stdint.h>

#include "base/state.h"

/* How many entries of a section are there to read. */
static inline uint32_t dp_in_use(const struct dp_section *s) { return __atomic_load_n(&s->count, __ATOMIC_ACQUIRE); }

static inline const struct dp_function *dp_function_at(const struct dp_header *view, uint64_t i)
{
	return (const struct dp_function *)dp_in_table(view, view->functions.offset) + i;
}

static inline const struct dp_object_entry *dp_object_of(const struct dp_header *view, const struct dp_function *f)
{
	return (const struct dp_object_entry *)dp_in_table(view, view->objects.offset) + f->object;
}

static inline const char *dp_string(const struct dp_header *view, uint32_t offset)
{
	return (const char *)dp_in_table(view, view->strings.offset) + offset;
}

static inline int dp_is_counted(const struct dp_function *f)
{
	return f->counter != DP_NO_COUNTER && f->tactic != DP_REFUSED_TACTIC;
}

/* The run address of a function's entry. */
static inline uint64_t dp_entry_of_function(const struct dp_header *view, const struct dp_function *f)
{
	return f->address + dp_object_of(view, f)->bias;
}

static inline struct dp_event *dp_event_at(struct dp_header *table, uint64_t slot)
{
	return (struct dp_event *)dp_in_table(table, table->events.offset) + slot;
}

#endif
