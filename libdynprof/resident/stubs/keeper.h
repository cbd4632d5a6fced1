/* What a keeper is told to keep (stubgen/emit/keep.go writes it). */
#ifndef DYNPROF_KEEPER_H
#define DYNPROF_KEEPER_H

#define DP_KEEP_RAX 0x01
#define DP_KEEP_RDX 0x02
#define DP_KEEP_XMM0 0x04
#define DP_KEEP_XMM1 0x08
#define DP_KEEP_XMM2_7 0x10
#define DP_KEEP_XMM8_15 0x20
#define DP_KEEP_WIDE 0x40  /* what lies above xmm0 to xmm15, zmm16 to zmm31, k0 to k7 */
#define DP_KEEP_STACK 0xff00 /* words of stack arguments */

/* dp_pointers.keep, if it is no keep block: */
#define DP_KEEP_NOTHING 0
#define DP_KEEP_STACK_UNKNOWN 1 /* it is not known how many stack arguments there are */
#define DP_KEEP_CUSTOM 2        /* it has a calling convention of its own */

#define DP_KEEP_CODE 6 /* a keep block: behind push code(%rip) */
#define DP_KEEP_BOTH 11 /* and push $what */
#define DP_KEEP_SIZE 16

#ifndef __ASSEMBLER__
#include "base/raw.h"

/* What keep blocks lead to. */
void dp_keeper(void) HIDDEN;
#endif

#endif
