/* A copy may have a jump table of its own (stubgen/translate/tables.go). Between the instruction
 * that reads it and the jump, which is in the same block, a register has an address in the copy,
 * or a distance to it:
 *
 *	movslq copied-table(%rdx,%rax,4), %rax
 *	add    %rdx, %rax
 *	jmp    *%rax
 *
 * These instructions are marked. A handler that strikes there sees what the program's own table
 * has; so does who goes on in the program's own code, as behind hotspots detach.
 */
#include "signals/aimed.h"

#include "base/context.h"
#include "base/raw.h"
#include "base/stub.h"

enum { REX = 0x40, REX_W = 8, REX_R = 4, REX_B = 1, REGISTERS = 0xc0, NO_REGISTER = 16 };

/* The instructions that are marked, from one on. */
struct aimed {
	const struct dp_known *c;
	const struct dp_origin *o;
	uint64_t next;
};

/* The address of the next one; 0: there is none. Counts come in between, and nops in front of them. */
static uint64_t next_aimed(struct aimed *a)
{
	const struct dp_origin *end = a->c->origins + a->c->origins_count;
	for (;;) {
		struct dp_run r = dp_run_of(a->c, a->o);
		uint64_t at = a->c->at + a->o->at + r.body;
		uint32_t i = 0;
		for (; i < r.count && at < a->next; i++)
			at += r.lengths[i][1];
		for (; i < r.count && r.lengths[i][0] == 0; i++)
			at += r.lengths[i][1];
		if (i < r.count) {
			if (!(r.lengths[i][0] & DP_IS_AIMED))
				return 0;
			a->next = at + r.lengths[i][1];
			return at;
		}
		if (++a->o == end || !(a->o->flags & DP_IS_COPY))
			return 0;
		a->next = 0;
	}
}

/* Of jmp *REGISTER. */
static unsigned target_of(uint64_t at)
{
	enum { NOTRACK = 0x3e, BND = 0xf2, GROUP = 0xff, JUMPS = 0xe0 };
	const uint8_t *code = (const uint8_t *)at;
	unsigned rex = 0;
	while (*code == NOTRACK || *code == BND)
		code++;
	if ((*code & 0xf0) == REX)
		rex = *code++;
	if (code[0] != GROUP || (code[1] & 0xf8) != JUMPS)
		return NO_REGISTER;
	return (code[1] & 7U) | (rex & REX_B ? 8U : 0);
}

/* What is added, of add REGISTER, TO. */
static unsigned added_to(uint64_t at, unsigned to)
{
	enum { ADD_RM = 0x01, ADD_REG = 0x03 };
	const uint8_t *code = (const uint8_t *)at;
	if ((code[0] & (0xf0 | REX_W)) != (REX | REX_W) || (code[1] != ADD_RM && code[1] != ADD_REG) || (code[2] & REGISTERS) != REGISTERS)
		return NO_REGISTER;
	unsigned rm = (code[2] & 7U) | (code[0] & REX_B ? 8U : 0), reg = (code[2] >> 3 & 7U) | (code[0] & REX_R ? 8U : 0);
	unsigned sum = code[1] == ADD_RM ? rm : reg;
	return sum == to ? (rm ^ reg ^ sum) : NO_REGISTER;
}

/* The program's address that one in a copy, where a block begins, stands for; 0: none. */
static uint64_t original_of(const struct dp_known *c, uint64_t at)
{
	const struct dp_origin *o = at >= c->at && at < c->end ? dp_origin_at(c, at - c->at) : 0;
	if (!o || !(o->flags & DP_IS_COPY) || c->at + o->at != at)
		return 0;
	return c->at + (uint64_t)(int64_t)o->from;
}

void dp_show_aimed(const struct dp_known *c, const struct dp_origin *o, uint64_t at, uint64_t *g, struct dp_shown *s)
{
	unsigned target = NO_REGISTER, base = NO_REGISTER;
	if (!(o->flags & DP_IS_COPY))
		return;
	struct aimed all = {c, o, at};
	for (uint64_t each; (each = next_aimed(&all));)
		target = target_of(each);
	if (target == NO_REGISTER)
		return;
	all = (struct aimed){c, o, at};
	for (uint64_t each; (each = next_aimed(&all));)
		if (base == NO_REGISTER)
			base = added_to(each, target);
	uint64_t place = dp_place_of(target), to = g[place] + (base == NO_REGISTER ? 0 : g[dp_place_of(base)]);
	uint64_t original = original_of(c, to);
	if (!original)
		return;
	if (place != DP_REG_RAX) {
		s->other = place + 1;
		s->was = g[place];
	}
	g[place] += original - to;
}
