/* What a seccomp filter says of a system call. The interpreter is that of
 * linux/Documentation/userspace-api/seccomp_filter: classic BPF over struct
 * seccomp_data, which the kernel has checked.
 */
#include <linux/audit.h>
#include <stddef.h>

#include "base/verdict.h"

static uint32_t word_of(const struct seccomp_data *data, uint32_t at)
{
	return at <= sizeof *data - 4 ? *(const uint32_t *)((const uint8_t *)data + at) : 0;
}

static uint32_t compute(uint32_t op, uint32_t a, uint32_t b)
{
	switch (op) {
	case BPF_ADD: return a + b;
	case BPF_SUB: return a - b;
	case BPF_MUL: return a * b;
	case BPF_DIV: return a / b;
	case BPF_OR: return a | b;
	case BPF_AND: return a & b;
	case BPF_LSH: return a << (b & 31);
	case BPF_RSH: return a >> (b & 31);
	case BPF_XOR: return a ^ b;
	case BPF_NEG: return -a;
	}
	return 0;
}

static int holds(uint32_t op, uint32_t a, uint32_t b)
{
	switch (op) {
	case BPF_JEQ: return a == b;
	case BPF_JGT: return a > b;
	case BPF_JGE: return a >= b;
	case BPF_JSET: return (a & b) != 0;
	}
	return 1; /* BPF_JA */
}

/* Jumps lead forward only, so it ends. */
uint32_t dp_verdict(const struct sock_filter *code, uint32_t len, const struct seccomp_data *data)
{
	uint32_t a = 0, x = 0, mem[BPF_MEMWORDS] = {0};
	for (uint32_t pc = 0; pc < len; pc++) {
		const struct sock_filter *i = &code[pc];
		uint32_t operand = BPF_SRC(i->code) == BPF_X ? x : i->k;
		switch (BPF_CLASS(i->code)) {
		case BPF_LD:
		case BPF_LDX: {
			uint32_t value;
			switch (BPF_MODE(i->code)) {
			case BPF_ABS: value = word_of(data, i->k); break;
			case BPF_IMM: value = i->k; break;
			case BPF_MEM: value = mem[i->k % BPF_MEMWORDS]; break;
			case BPF_LEN: value = sizeof *data; break;
			default: return SECCOMP_RET_KILL_PROCESS;
			}
			*(BPF_CLASS(i->code) == BPF_LD ? &a : &x) = value;
			break;
		}
		case BPF_ST: mem[i->k % BPF_MEMWORDS] = a; break;
		case BPF_STX: mem[i->k % BPF_MEMWORDS] = x; break;
		case BPF_ALU:
			if (BPF_OP(i->code) == BPF_DIV && operand == 0)
				return SECCOMP_RET_KILL_THREAD; /* as the kernel has it: 0 */
			a = compute(BPF_OP(i->code), a, operand);
			break;
		case BPF_JMP:
			if (BPF_OP(i->code) == BPF_JA)
				pc += i->k;
			else
				pc += holds(BPF_OP(i->code), a, operand) ? i->jt : i->jf;
			break;
		case BPF_RET: return BPF_RVAL(i->code) == BPF_A ? a : i->k;
		case BPF_MISC:
			if (BPF_MISCOP(i->code) == BPF_TAX)
				x = a;
			else
				a = x;
			break;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}

/* What is in the accumulator when an instruction is reached; 0: it is not. */
enum { ARCH = 1, NUMBER, ANYTHING };

/* The ways that a jump may go on. */
enum { TAKEN = 1, PASSED, BOTH };

/* Filters look at the machine, and for numbers of x32, which nobody here makes. */
static int ways(const struct sock_filter *i, uint8_t a)
{
	enum { NUMBERS = 512 };
	uint32_t op = BPF_OP(i->code), k = i->k;
	if (op == BPF_JA)
		return TAKEN;
	if (BPF_SRC(i->code) == BPF_X || a == ANYTHING)
		return BOTH;
	if (a == ARCH)
		return holds(op, AUDIT_ARCH_X86_64, k) ? TAKEN : PASSED;
	return op == BPF_JSET ? (k % NUMBERS ? BOTH : PASSED) : op == BPF_JGT ? (k < NUMBERS - 1 ? BOTH : PASSED) : k < NUMBERS ? BOTH : PASSED;
}

static uint8_t loads(const struct sock_filter *i)
{
	if (BPF_MODE(i->code) != BPF_ABS)
		return ANYTHING;
	return i->k == offsetof(struct seccomp_data, arch) ? ARCH : i->k == offsetof(struct seccomp_data, nr) ? NUMBER : ANYTHING;
}

static void reach(uint8_t *reached, uint32_t len, uint64_t at, uint8_t a)
{
	if (at < len)
		reached[at] = !reached[at] || reached[at] == a ? a : ANYTHING;
}

static int refuses_at_most(const struct sock_filter *i)
{
	uint32_t action = i->k & SECCOMP_RET_ACTION_FULL;
	return BPF_RVAL(i->code) == BPF_K && (action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG || action == SECCOMP_RET_ERRNO);
}

/* Goes all ways at once, as each instruction is behind those that lead to it. */
int dp_only_refuses(const struct sock_filter *code, uint32_t len, uint8_t *reached)
{
	if (!len || len > BPF_MAXINSNS)
		return 0;
	for (uint32_t pc = 0; pc < len; pc++)
		reached[pc] = pc ? 0 : ANYTHING;
	for (uint32_t pc = 0; pc < len; pc++) {
		const struct sock_filter *i = &code[pc];
		uint8_t a = reached[pc];
		int class = BPF_CLASS(i->code), on = class == BPF_JMP ? ways(i, a) : 0;
		if (!a)
			continue;
		if ((class == BPF_RET && !refuses_at_most(i)) || (class == BPF_ALU && BPF_OP(i->code) == BPF_DIV && BPF_SRC(i->code) == BPF_X))
			return 0; /* by 0 it kills */
		if (on & TAKEN)
			reach(reached, len, pc + 1 + (uint64_t)(BPF_OP(i->code) == BPF_JA ? i->k : i->jt), a);
		if (on & PASSED)
			reach(reached, len, pc + 1 + (uint64_t)i->jf, a);
		if (class == BPF_LD)
			a = loads(i);
		else if (class == BPF_ALU || (class == BPF_MISC && BPF_MISCOP(i->code) == BPF_TXA))
			a = ANYTHING;
		if (class != BPF_JMP && class != BPF_RET)
			reach(reached, len, pc + 1, a);
	}
	return 1;
}
