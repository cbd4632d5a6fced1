/* Where the kernel keeps registers in what it hands to signal handlers. */
#ifndef DYNPROF_CONTEXT_H
#define DYNPROF_CONTEXT_H

/* Offsets in ucontext_t (asm/ucontext.h, asm/sigcontext.h). */
#define DP_UC_RIP 168
#define DP_UC_EFLAGS 176
#define DP_UC_GREGS 40

/* Registers of the interrupted code, by their index in the context. */
#define DP_REG_R8 0 /* and so on, to r15 */
#define DP_REG_RDI 8
#define DP_REG_RSI 9
#define DP_REG_RBP 10
#define DP_REG_RBX 11
#define DP_REG_RDX 12
#define DP_REG_RAX 13
#define DP_REG_RCX 14
#define DP_REG_RSP 15
#define DP_REG_RIP 16
#define DP_REG_EFLAGS 17

#ifndef __ASSEMBLER__
#include <stdint.h>

/* Where a register that instructions know by a number is in the context. */
static inline uint64_t dp_place_of(unsigned number)
{
	enum { R8 = 8 };
	static const uint8_t first[R8] = {DP_REG_RAX, DP_REG_RCX, DP_REG_RDX, DP_REG_RBX, DP_REG_RSP, DP_REG_RBP, DP_REG_RSI, DP_REG_RDI};
	return number < R8 ? first[number] : DP_REG_R8 + number - R8;
}
#endif

#endif
