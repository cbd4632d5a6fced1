/* A session with a planner: it gets scratch memory, and somebody waits for its plan.
 * And what else the shim's files have of each other. */
#ifndef DYNPROF_SESSION_H
#define DYNPROF_SESSION_H

#include <stdint.h>

#include "base/ctl.h"
#include "base/raw.h"
#include "plans/late.h"

/* session.c */
/* Whether address space is limited. */
int dp_space_is_short(void) HIDDEN;
int dp_map_scratch(struct dp_session *s) HIDDEN;
/* The reserve that a session needs. */
uint64_t dp_reserve_for(const struct dp_session *s) HIDDEN;
void dp_unmap_scratch(struct dp_session *s) HIDDEN;
/* Returns 0, or why there is nothing to apply; finish it in either case. */
const char *dp_run_twin(struct dp_session *s, long *twin, int *reaped) HIDDEN;
void dp_finish_twin(long twin, int reaped, int wanted) HIDDEN;
void dp_finish_late(struct dp_session *s, long twin, int reaped, int wanted) HIDDEN;
const char *dp_await_saved(struct dp_ctl *ctl, long twin, int *reaped) HIDDEN;
const char *dp_await_twin(struct dp_ctl *ctl, long twin, int *reaped) HIDDEN;
int dp_children_elsewhere(void) HIDDEN;
int dp_planner_endangers(const struct dp_session *s) HIDDEN;

/* threads.c */
void dp_note_tls(uint64_t size) HIDDEN;

/* libc.c: dl_iterate_phdr(3) of libc, whoever else has a function of that name. */
struct r_debug;
struct dl_phdr_info;
typedef int dp_iterate(int (*see)(struct dl_phdr_info *, size_t, void *), void *arg);
dp_iterate *dp_libc_iterate(const struct r_debug *r) HIDDEN;

/* Not 0 in the copy of this library that counts, or where somebody counts from outside, who has
 * stored that. */
extern int dynprof_here;

/* Whether another copy of this library counts in this process; else it is this one. */
int dp_another_counts(const struct r_debug *r) HIDDEN;

/* Where the heap ends, if it can be moved up now; else 0. */
uint64_t dp_heap_end(const struct r_debug *r) HIDDEN;

/* Moves the heap's end from heap_end to heap_to: what is between is held for the
 * arenas, and the program's heap goes on behind. Reports whether it did. */
int dp_lift_heap(struct dp_ctl *ctl, const struct r_debug *r) HIDDEN;

#endif
