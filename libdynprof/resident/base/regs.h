/* Registers at a kernel site; slowpath.S uses the offsets. */
#ifndef DYNPROF_REGS_H
#define DYNPROF_REGS_H

/* What slowpath.S saves on the parent's stack. */
#define DP_REGS_RBP 0
#define DP_REGS_R15 8
#define DP_REGS_R10 16
#define DP_REGS_R9 24
#define DP_REGS_R8 32
#define DP_REGS_RDX 40
#define DP_REGS_RSI 48
#define DP_REGS_RDI 56
#define DP_REGS_RAX 64     /* the system call's number, then its result */
#define DP_REGS_RCX 72     /* the thunk's own system call */
#define DP_REGS_FLAGS 80
#define DP_REGS_KEPT 88    /* for what follows the system call */
#define DP_REGS_FORK 96    /* as the birth's, which the child may have given back */
#define DP_REGS_HOME 104   /* behind the program's system call: unwinders go on there */
#define DP_REGS_SIZE 112

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

struct dp_regs {
	uint64_t rbp, r15, r10, r9, r8, rdx, rsi, rdi, rax, rcx, flags, kept, fork, home;
};

/* Where the program's stack is: between lies what its function may have below it. */
static inline uint64_t dp_program_stack(const struct dp_regs *r)
{
	enum { RED_ZONE = 128 };
	return (uint64_t)(r + 1) + RED_ZONE;
}

/* C and assembly mean the same. */
#define DP_SAME(type, field, offset) \
	_Static_assert(offsetof(struct type, field) == (offset), #type "." #field)
DP_SAME(dp_regs, rbp, DP_REGS_RBP);
DP_SAME(dp_regs, r15, DP_REGS_R15);
DP_SAME(dp_regs, r10, DP_REGS_R10);
DP_SAME(dp_regs, r9, DP_REGS_R9);
DP_SAME(dp_regs, r8, DP_REGS_R8);
DP_SAME(dp_regs, rdx, DP_REGS_RDX);
DP_SAME(dp_regs, rsi, DP_REGS_RSI);
DP_SAME(dp_regs, rdi, DP_REGS_RDI);
DP_SAME(dp_regs, rax, DP_REGS_RAX);
DP_SAME(dp_regs, rcx, DP_REGS_RCX);
DP_SAME(dp_regs, flags, DP_REGS_FLAGS);
DP_SAME(dp_regs, kept, DP_REGS_KEPT);
DP_SAME(dp_regs, fork, DP_REGS_FORK);
DP_SAME(dp_regs, home, DP_REGS_HOME);
_Static_assert(sizeof(struct dp_regs) == DP_REGS_SIZE, "dp_regs");
#endif

#endif
