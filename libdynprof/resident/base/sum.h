/* Sums of bytes. */
#ifndef DYNPROF_SUM_H
#define DYNPROF_SUM_H

#include <stdint.h>

#include "base/raw.h"

#define DP_FNV_BEGIN 0xcbf29ce484222325u

/* FNV-1a, 64 bits: of what sum is of, and n bytes behind it. */
static inline uint64_t dp_fnv(uint64_t sum, const void *bytes, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		sum = (sum ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
	return sum;
}

/* XXH64 with seed 0 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md). */
uint64_t dp_xxh64(const void *bytes, uint64_t n) HIDDEN;

#endif
