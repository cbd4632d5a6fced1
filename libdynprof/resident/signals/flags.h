/* Status flags that code of ours has saved in rax, and a mark in their word. */
#ifndef DYNPROF_FLAGS_H
#define DYNPROF_FLAGS_H

#include <stdint.h>

#include "base/context.h"
#include "base/stub.h"

/* The context g gets those that are in ah and al: before says that OF is not restored from al
 * yet. */
static inline void dp_flags_of_rax(uint64_t *g, int before)
{
	enum { CF_PF_AF_ZF_SF = 0xd5, OF = 1 << 11 };
	uint64_t rax = g[DP_REG_RAX];
	int overflow = before ? (rax & 0xff) != 0 : (rax & 0xff) == DP_RESTORED_OF_AL;
	g[DP_REG_EFLAGS] &= ~(uint64_t)(CF_PF_AF_ZF_SF | OF);
	g[DP_REG_EFLAGS] |= (rax >> 8 & CF_PF_AF_ZF_SF) | (overflow ? OF : 0);
}

/* What the upper half of the flags' word says of a thread that stands behind the count of the
 * function whose entry its context shows. */
static inline uint64_t dp_counted_mark(uint64_t rip, uint64_t rsp)
{
	uint64_t mixed = (rip ^ rsp << 17) * 0x9e3779b97f4a7c15;
	return (mixed >> 32 | 1) << 32;
}

#endif
