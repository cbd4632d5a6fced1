/* Regions: ranges of memory whose accesses are recorded, in the order in which threads come to
 * them, behind the shadow that says where they may be (stubgen/emit/record.go, docs/regions.md). */
#ifndef DYNPROF_REGIONS_H
#define DYNPROF_REGIONS_H

#include <stdint.h>

#include "base/layout.h"
#include "base/raw.h"

/* What lies at at, behind the shadow, is for that from now on. */
void dp_regions_begin(uint64_t at) HIDDEN;
void dp_regions_end(void) HIDDEN;
/* Whether regions can be made. */
int dp_regions_are(void) HIDDEN;

/* Which accesses are recorded: those that read, and those that write. */
enum { DP_REGION_LOAD = 1, DP_REGION_STORE = 2, DP_REGION_ALL = DP_REGION_LOAD | DP_REGION_STORE };
/* The number of a new region, or -errno; any thread may, and any handler. kinds: 0 is what
 * was chosen for all. */
int64_t dp_region_add(uint64_t low, uint64_t size, const char *name, unsigned kinds) HIDDEN;
long dp_region_remove(int64_t number) HIDDEN;
/* The number of the last one made of those that begin there; -ENOENT. */
int64_t dp_region_at(uint64_t low) HIDDEN;
/* The number of the allocation site of that name, or of a new one; 0: there can be no more. */
uint64_t dp_region_of_site(const char *name) HIDDEN;
/* What is recorded of regions that do not say it themselves. */
void dp_regions_record(unsigned kinds) HIDDEN;
/* Waits until all that was recorded so far has been taken; -ETIMEDOUT: nobody takes it. */
long dp_regions_flush(void) HIDDEN;

/* Puts a mark behind what has been recorded; -ENOSPC: too many names, -ETIMEDOUT: nobody takes records. */
long dp_regions_mark(const char *name, uint64_t value) HIDDEN;
/* Whether there is no room for records now. */
int dp_regions_full(void) HIDDEN;

/* A region that there is, or was, and what has been taken of it by now: by DP_DONE_*. */
struct dp_told {
	uint64_t low, size, kinds, removed, done[DP_DONE_SIZE / sizeof(uint64_t)];
};
/* 0: there has been none of that number. */
int dp_region_told(int64_t number, struct dp_told *t) HIDDEN;

/* Whether one of so many bytes may be in a region. */
int dp_region_may(uint64_t at, uint64_t bytes) HIDDEN;
/* The instruction at home is about to do what what says (emit.Record) with the memory at at. */
void dp_record(uint64_t at, uint64_t home, uint64_t what) HIDDEN;

#endif
