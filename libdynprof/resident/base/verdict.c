/* What a seccomp filter says of a system call. The interpreter is that of
 * linux/Documentation/userspace-api/seccomp_filter: classic BPF over struct
 * seccomp_data, which the kernel has checked.
 */
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
