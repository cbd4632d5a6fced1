/* The shadow: which memory is touched (stubgen/emit/touch.go), in a file of who started the
 * program (internal/heat), which sees it as it is at each moment. It has one for each program that runs in
 * the process, one after the other. */
#ifndef DYNPROF_HEAT_H
#define DYNPROF_HEAT_H

#include "base/ctl.h"
#include "base/raw.h"

/* What is behind it. */
enum dp_behind {
	DP_NOTHING,
	DP_REGIONS, /* the shadow says where these are: what records accesses */
	DP_BLOCKS,  /* what notes blocks of malloc (held.h) */
};
/* Memory from that address on is somebody else's, who comes later. */
struct dp_wanted {
	uint64_t from;
	const char *why;
};
/* Maps it from that file, before anything can be touched. Returns 0, or why there is none; an empty text: it
 * was said before. */
const char *dp_heat_begin(const char *path, enum dp_behind behind, struct dp_wanted wanted) HIDDEN;
/* The nonce of the table that it is of. */
void dp_heat_of(const uint8_t *table) HIDDEN;
/* How that is noted: enum dp_heat. */
uint64_t dp_heat_how(void) HIDDEN;
/* Whether it is told which instruction touches a page. */
static inline int dp_heat_tells(uint64_t how) { return how == DP_HEAT_WHO || how == DP_HEAT_WHO_MASKS; }
/* Of which granules, by the file: bits of an address within one. */
uint64_t dp_heat_granule(void) HIDDEN;
/* The one that this thread notes in. */
uint8_t *dp_heat_shadow(void) HIDDEN;
/* Whether a system call may be made that the program would not make: there was no seccomp filter
 * at the start, which may kill. */
int dp_heat_asks(void) HIDDEN;
/* How many programs have run in this process before this one. */
uint64_t dp_heat_before(void) HIDDEN;
/* Nothing will be touched after all. */
void dp_heat_take_back(void) HIDDEN;
/* Whether some of it is in [low, high). */
int dp_heat_has(uint64_t low, uint64_t high) HIDDEN;
/* The process ends: what is where is noted in the file. */
void dp_heat_end(void) HIDDEN;

#endif
