/* Regions: ranges of memory whose accesses are recorded, in the order in which threads come to
 * them, behind the shadow that says where they may be (stubgen/emit/record.go, docs/regions.md). */
#ifndef DYNPROF_REGIONS_H
#define DYNPROF_REGIONS_H

#include <stdint.h>

#include "base/ctl.h"
#include "base/raw.h"

/* What lies at at, behind the shadow, is for that from now on. */
void dp_regions_begin(uint64_t at) HIDDEN;
void dp_regions_end(void) HIDDEN;
/* Whether regions can be made. */
int dp_regions_are(void) HIDDEN;

/* What could not be made: names of those whose object is not loaded, and of others. */
struct dp_unmade {
	char absent[512], impossible[512];
};

/* Those that a user chose, NAME=WHAT with a semicolon in between. WHAT is OBJECT/OBJECT/+OFFSET:BYTES,
 * of the object that has one of these names, without one of the executable; OBJECT/ all of one;
 * @ADDRESS:BYTES; ^ the heap that brk(2) makes larger; _ the first thread's stack; <PATH
 * what is mapped of a file from now on;
 * *OBJECT/+OFFSET:BYTES,OFFSET:BYTES blocks that calls ask for which return into that code, behind
 * its first byte. %KINDS, in front of them, is what is recorded of all. unmade: is empty, or null. */
void dp_regions_choose(const char *list, const struct dp_ctl *ctl, struct dp_unmade *unmade) HIDDEN;

/* And those of objects that came later. */
void dp_regions_late(const struct dp_ctl *ctl) HIDDEN;
/* Removes those of objects that came later and are gone. */
void dp_regions_pass(int (*is_loaded)(uint64_t dynamic)) HIDDEN;

/* Which accesses are recorded: those that read, and those that write. */
enum { DP_REGION_LOAD = 1, DP_REGION_STORE = 2, DP_REGION_ALL = DP_REGION_LOAD | DP_REGION_STORE };
/* The number of a new region, or -errno; any thread may, and any handler. kinds: 0 is what
 * was chosen for all. */
int64_t dp_region_add(uint64_t low, uint64_t size, const char *name, unsigned kinds) HIDDEN;
long dp_region_remove(int64_t number) HIDDEN;
/* The number of the last one made of those that begin there; -ENOENT. */
int64_t dp_region_at(uint64_t low) HIDDEN;
/* Waits until all that was recorded so far has been taken; -ETIMEDOUT: nobody takes it. */
long dp_regions_flush(void) HIDDEN;

/* Whether one of so many bytes may be in a region. */
int dp_region_may(uint64_t at, uint64_t bytes) HIDDEN;
/* The instruction at home is about to do what what says (emit.Record) with the memory at at. */
void dp_record(uint64_t at, uint64_t home, uint64_t what) HIDDEN;

#endif
