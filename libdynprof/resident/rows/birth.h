/* What a parent leaves for the thread or process it is about to make. It lies
 * in the header of the new row (DP_ROW_BIRTH); slowpath.S uses the offsets. */
#ifndef DYNPROF_BIRTH_H
#define DYNPROF_BIRTH_H

#include "base/layout.h"
#include "base/regs.h"

#define DP_BIRTH_GS 0      /* the child's GS base */
#define DP_BIRTH_R15 8     /* registers as they were at the kernel site */
#define DP_BIRTH_RDI 16
#define DP_BIRTH_RSI 24
#define DP_BIRTH_RSP 32    /* 0 if the child has a stack of its own */
#define DP_BIRTH_RESUME 40 /* behind the system call; 0: its child has read it all (lost.h) */
#define DP_BIRTH_FLAGS 48
#define DP_BIRTH_SIGMASK 56
#define DP_BIRTH_FORK 64   /* DP_FORK, if the child has its own memory */

/* In place of the flags, of which one bit is always set, once the child is there:
 * it has ended. */
#define DP_BIRTH_ENDED 0

#define DP_FORK 1
#define DP_FORK_BLOCKED 2  /* and signals are blocked until it has its row */

/* In place of a birth: the system call installs a filter, looks at or sets
 * the GS base, may map a file that is a region, or executes a program. */
#define DP_FILTER_CALL 1
#define DP_GS_CALL 2
#define DP_MAP_CALL 3
#define DP_EXEC_CALL 4 /* the greatest */

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

struct dp_birth {
	uint64_t gs, r15, rdi, rsi, rsp, resume, flags, sigmask;
	uint32_t fork; /* the row goes on right behind it */
};

DP_SAME(dp_birth, gs, DP_BIRTH_GS);
DP_SAME(dp_birth, r15, DP_BIRTH_R15);
DP_SAME(dp_birth, rdi, DP_BIRTH_RDI);
DP_SAME(dp_birth, rsi, DP_BIRTH_RSI);
DP_SAME(dp_birth, rsp, DP_BIRTH_RSP);
DP_SAME(dp_birth, resume, DP_BIRTH_RESUME);
DP_SAME(dp_birth, flags, DP_BIRTH_FLAGS);
DP_SAME(dp_birth, sigmask, DP_BIRTH_SIGMASK);
DP_SAME(dp_birth, fork, DP_BIRTH_FORK);

static inline struct dp_birth *dp_birth_of(struct dp_row *row) { return (struct dp_birth *)((uint8_t *)row + DP_ROW_BIRTH); }
#endif

#endif
