/* Stacks on which C runs at a kernel site of a program whose own may be too small: a goroutine's
 * has some hundred bytes left where the Go runtime makes a system call. Signals are not blocked:
 * Go's handlers have a stack of their own. Who finds all taken waits, some tenths of a second, as
 * many threads may be at such sites for a moment; then the program's has to do, since all may be
 * held by threads whose handlers wait for one, too. In a forked child its only thread has none. */
#ifndef DYNPROF_SIDESTACK_H
#define DYNPROF_SIDESTACK_H

#define DP_SIDE_STACKS 16 /* bits of a word */
#define DP_SIDE_STACK_SHIFT 12
#define DP_SIDE_STACK_WAITS (1 << 24)
#define DP_NO_SIDE_STACKS (0xffffffffU << DP_SIDE_STACKS)

#ifndef __ASSEMBLER__
#include <stdint.h>

#include "base/raw.h"

extern uint8_t dp_small_stacks HIDDEN;
#endif

#endif
