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

/* Those that a user chose: NAME=OBJECT+OFFSET:BYTES, without OBJECT of the executable, with @ in
 * place of OBJECT+ at that address, NAME=^ the heap that brk(2) makes larger,
 * NAME=*OBJECT+OFFSET:BYTES,OFFSET:BYTES blocks that calls ask for which return into that code, behind
 * its first byte, and without what follows OBJECT all of it; more behind
 * semicolons. Returns the first that names what is not loaded, or cannot be made; 0: none does. */
const char *dp_regions_choose(const char *list, const struct dp_ctl *ctl) HIDDEN;

/* And those of objects that came later. */
void dp_regions_late(const struct dp_ctl *ctl) HIDDEN;
/* Removes those of objects that came later and are gone. */
void dp_regions_pass(int (*is_loaded)(uint64_t dynamic)) HIDDEN;

/* The number of a new region, or -errno; any thread may, and any handler. */
int64_t dp_region_add(uint64_t low, uint64_t size, const char *name) HIDDEN;
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
