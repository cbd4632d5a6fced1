/* What a parent leaves for the thread or process it is about to make. It lies
 * in the header of the new row (DP_ROW_BIRTH); slowpath.S uses the offsets. */
#ifndef DYNPROF_BIRTH_H
#define DYNPROF_BIRTH_H

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
#define DP_REGS_SIZE 104

/* In place of a birth: the system call installs a filter, or looks at or sets
 * the GS base. */
#define DP_FILTER_CALL 1
#define DP_GS_CALL 2

/* Length of the thunk's syscall: the child and the parent go on behind. */
#define DP_THUNK_SYSCALL 2

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

struct dp_birth {
	uint64_t gs, r15, rdi, rsi, rsp, resume, flags, sigmask;
	uint32_t fork; /* the row goes on right behind it */
};

struct dp_regs {
	uint64_t rbp, r15, r10, r9, r8, rdx, rsi, rdi, rax, rcx, flags, kept, fork;
};

#define DP_SAME(type, field, offset) \
	_Static_assert(offsetof(struct type, field) == (offset), #type "." #field)
DP_SAME(dp_birth, gs, DP_BIRTH_GS);
DP_SAME(dp_birth, r15, DP_BIRTH_R15);
DP_SAME(dp_birth, rdi, DP_BIRTH_RDI);
DP_SAME(dp_birth, rsi, DP_BIRTH_RSI);
DP_SAME(dp_birth, rsp, DP_BIRTH_RSP);
DP_SAME(dp_birth, resume, DP_BIRTH_RESUME);
DP_SAME(dp_birth, flags, DP_BIRTH_FLAGS);
DP_SAME(dp_birth, sigmask, DP_BIRTH_SIGMASK);
DP_SAME(dp_birth, fork, DP_BIRTH_FORK);
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
_Static_assert(sizeof(struct dp_regs) == DP_REGS_SIZE, "dp_regs");
#endif

#endif
