/* Allocation sites: regions that are blocks of malloc, from when they are handed out until they
 * are given back, by the code that asked for them (allocs.S, stubgen/emit/allocator.go,
 * docs/regions.md). */
#ifndef DYNPROF_ALLOCS_H
#define DYNPROF_ALLOCS_H

#include <stdint.h>

#include "base/layout.h"
#include "base/raw.h"

/* Whose calls are led here. What they say of a block is in their arguments. */
enum dp_allocator {
	DP_ALLOC_FREE,		/* (block) */
	DP_ALLOC_SIZE,		/* (size) */
	DP_ALLOC_ARRAY,		/* (number, size) */
	DP_ALLOC_AGAIN,		/* (block, size) */
	DP_ALLOC_AGAIN_ARRAY,	/* (block, number, size) */
	DP_ALLOC_ALIGNED,	/* (alignment, size) */
	DP_ALLOC_INTO,		/* (where to put the block, alignment, size), returns 0 */
};

/* From now on there may be sites. Returns 0 if there is no memory for what is noted of blocks. */
int dp_allocs_begin(void) HIDDEN;
int dp_allocs_are(void) HIDDEN;
/* Where thunks of functions that hand out blocks, or take them back, lead to; 0: there are none. */
uint64_t dp_allocs_entry(void) HIDDEN;
/* There is one more, a region of that number. Returns what it is known by, -1: there are as many
 * as can be. */
int dp_allocs_site(uint64_t number) HIDDEN;
/* Blocks are of a site that are asked for by calls which return to (low, low + size]. Returns 0 if
 * there is too much such code. */
int dp_allocs_code(int site, uint64_t low, uint64_t size) HIDDEN;
/* Blocks of some function are not seen. */
void dp_allocs_unled(void) HIDDEN;
/* This process is about to have a child with copies of all blocks. */
void dp_allocs_copied(void) HIDDEN;
/* The region of a block that has a byte of [low, high); 0: there is none. */
uint64_t dp_allocs_region(uint64_t low, uint64_t high) HIDDEN;

#endif
