#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "bpf.h"

enum { RUN = 4 }; /* comparisons in a row that are worth a switch */

size_t bpf_length(const struct sock_filter *program)
{
	size_t reach = 0; /* the last instruction that a jump leads to */
	for (size_t i = 0; i < MOST_INSTRUCTIONS; i++) {
		const struct sock_filter *s = program + i;
		size_t to = 0;
		if (BPF_CLASS(s->code) == BPF_RET && i >= reach)
			return i + 1;
		if (s->code == (BPF_JMP | BPF_JA))
			to = s->k < MOST_INSTRUCTIONS ? i + 1 + s->k : MOST_INSTRUCTIONS; /* backwards: loops of ip6 protochain */
		else if (BPF_CLASS(s->code) == BPF_JMP)
			to = i + 1 + (s->jt > s->jf ? s->jt : s->jf);
		if (to >= MOST_INSTRUCTIONS)
			return 0;
		reach = to > reach ? to : reach;
	}
	return 0;
}

/* ---- instructions ------------------------------------------------------ */

/* A packet's bytes: beyond its end the filter says no. */
static int load(FILE *f, const struct sock_filter *s)
{
	static const struct { unsigned code, bytes; const char *what; } loads[] = {
		{BPF_W, 4, "(unsigned)p[k] << 24 | p[k + 1] << 16 | p[k + 2] << 8 | p[k + 3]"}, {BPF_H, 2, "p[k] << 8 | p[k + 1]"}, {BPF_B, 1, "p[k]"},
	};
	for (int i = 0; i < 3; i++) {
		if (BPF_SIZE(s->code) != loads[i].code)
			continue;
		if (BPF_MODE(s->code) == BPF_IND)
			fprintf(f, "if (%uu > captured || X > captured - %uu) return 0; ", s->k, s->k);
		fprintf(f, "k = %s%uu; if (k > captured || %u > captured - k) return 0; ", BPF_MODE(s->code) == BPF_IND ? "X + " : "", s->k,
			loads[i].bytes);
		return fprintf(f, "A = %s;", loads[i].what) > 0;
	}
	return 0;
}

static int alu(FILE *f, const struct sock_filter *s)
{
	static const char *const operators[] = {"+", "-", "*", "/", "|", "&", "<<", ">>", 0, "%", "^"};
	unsigned op = BPF_OP(s->code);
	if (s->code == (BPF_ALU | BPF_NEG))
		return fputs("A = -A;", f) >= 0;
	const char *operator = op >> 4 < sizeof operators / sizeof *operators ? operators[op >> 4] : 0;
	int shift = op == BPF_LSH || op == BPF_RSH, divide = op == BPF_DIV || op == BPF_MOD;
	if (!operator || (BPF_SRC(s->code) == BPF_K && ((shift && s->k > 31) || (divide && !s->k))))
		return 0;
	if (BPF_SRC(s->code) == BPF_K)
		return fprintf(f, "A = A %s %uu;", operator, s->k) > 0;
	if (divide)
		fputs("if (!X) return 0; ", f);
	return fprintf(f, shift ? "A = X > 31 ? 0 : A %s X;" : "A = A %s X;", operator) > 0;
}

/* All but jumps. Returns 0 if the instruction is not known. */
static int instruction(FILE *f, const struct sock_filter *s)
{
	unsigned memory = s->code == BPF_ST || s->code == BPF_STX || s->code == (BPF_LD | BPF_MEM) || s->code == (BPF_LDX | BPF_MEM);
	if (memory && s->k >= BPF_MEMWORDS)
		return 0;
	if (BPF_CLASS(s->code) == BPF_ALU)
		return alu(f, s);
	if (BPF_CLASS(s->code) == BPF_LD && (BPF_MODE(s->code) == BPF_ABS || BPF_MODE(s->code) == BPF_IND))
		return load(f, s);
	switch (s->code) {
	case BPF_RET | BPF_K: return fprintf(f, "return %uu;", s->k) > 0;
	case BPF_RET | BPF_A: return fputs("return A;", f) >= 0;
	case BPF_LD | BPF_IMM: return fprintf(f, "A = %uu;", s->k) > 0;
	case BPF_LDX | BPF_IMM: return fprintf(f, "X = %uu;", s->k) > 0;
	case BPF_LD | BPF_MEM: return fprintf(f, "A = M[%u];", s->k) > 0;
	case BPF_LDX | BPF_MEM: return fprintf(f, "X = M[%u];", s->k) > 0;
	case BPF_ST: return fprintf(f, "M[%u] = A;", s->k) > 0;
	case BPF_STX: return fprintf(f, "M[%u] = X;", s->k) > 0;
	case BPF_LD | BPF_W | BPF_LEN: return fputs("A = length;", f) >= 0;
	case BPF_LDX | BPF_W | BPF_LEN: return fputs("X = length;", f) >= 0;
	case BPF_LDX | BPF_MSH | BPF_B: return fprintf(f, "if (%uu >= captured) return 0; X = (p[%uu] & 15) << 2;", s->k, s->k) > 0;
	case BPF_MISC | BPF_TAX: return fputs("X = A;", f) >= 0;
	case BPF_MISC | BPF_TXA: return fputs("A = X;", f) >= 0;
	}
	return 0;
}

/* ---- jumps ------------------------------------------------------------- */

/* What is written, from the first instruction on: jumps lead forward only, so
 * whether an instruction is led to is known when it is its turn. */
struct writer {
	FILE *f;
	const struct sock_filter *s;
	uint8_t *needed; /* those that something leads to */
};

/* Where a jump to i ends. */
static size_t follow(const struct writer *w, size_t i)
{
	while (w->s[i].code == (BPF_JMP | BPF_JA))
		i += 1 + w->s[i].k;
	return i;
}

static size_t yes(const struct writer *w, size_t i) { return follow(w, i + 1 + w->s[i].jt); }
static size_t no(const struct writer *w, size_t i) { return follow(w, i + 1 + w->s[i].jf); }

static int go(struct writer *w, size_t to)
{
	w->needed[to] = 1;
	return fprintf(w->f, "goto L%zu;", to) > 0;
}

static int jump(struct writer *w, size_t i)
{
	static const char *const operators[] = {0, "==", ">", ">=", "&"};
	const struct sock_filter *s = w->s + i;
	unsigned op = BPF_OP(s->code) >> 4;
	if (s->code == (BPF_JMP | BPF_JA))
		return go(w, follow(w, i));
	if (!op || op >= sizeof operators / sizeof *operators)
		return 0;
	fprintf(w->f, "if (A %s ", operators[op]);
	if (BPF_SRC(s->code) == BPF_K)
		fprintf(w->f, "%uu) ", s->k);
	else
		fputs("X) ", w->f);
	go(w, yes(w, i));
	w->needed[no(w, i)] = 1;
	return no(w, i) == i + 1 || (fputs(" ", w->f) >= 0 && go(w, no(w, i)));
}

static int compares(const struct sock_filter *s) { return s->code == (BPF_JMP | BPF_JEQ | BPF_K); }

/* How many comparisons of A with constants follow each other from i on, where the
 * next one is asked if the last was not it. */
static size_t run(const struct writer *w, size_t i)
{
	size_t n = 0;
	for (; compares(w->s + i) && (n == 0 || !w->needed[i]); i = no(w, i))
		n++;
	return n;
}

/* They are one switch, which TinyCC makes a binary search. */
static int search(struct writer *w, size_t i, size_t n)
{
	uint32_t asked[MOST_INSTRUCTIONS];
	fputs("switch (A) {\n", w->f);
	for (size_t at = 0, before; at < n; at++, i = no(w, i)) {
		asked[at] = w->s[i].k;
		for (before = 0; asked[before] != asked[at]; before++)
			;
		if (before < at)
			continue; /* the first one counts */
		fprintf(w->f, "case %uu: ", asked[at]);
		go(w, yes(w, i));
		fputs("\n", w->f);
	}
	fputs("}\n", w->f);
	return go(w, i);
}

/* Returns 0 if an instruction is not known. */
static int body(struct writer *w, size_t length)
{
	w->needed[0] = 1;
	for (size_t i = 0; i < length; i++) {
		int done;
		if (!w->needed[i])
			continue;
		fprintf(w->f, "L%zu: ", i);
		if (BPF_CLASS(w->s[i].code) == BPF_JMP) {
			size_t n = run(w, i);
			done = n >= RUN ? search(w, i, n) : jump(w, i);
		} else {
			done = instruction(w->f, w->s + i);
			w->needed[i + 1] |= BPF_CLASS(w->s[i].code) != BPF_RET;
		}
		if (!done || fputs("\n", w->f) < 0)
			return 0;
	}
	return 1;
}

char *bpf_text(const struct sock_filter *program, size_t length)
{
	char *text = 0;
	size_t size;
	struct writer w = {0, program, calloc(length + 1, 1)};
	int done = 0;
	if (w.needed)
		w.f = open_memstream(&text, &size);
	if (w.f) {
		fputs("unsigned filter(const unsigned char *p, unsigned length, unsigned captured)\n"
		      "{\nunsigned A = 0, X = 0, k, M[16];\n", w.f);
		done = body(&w, length) && fputs("}\n", w.f) >= 0;
		done &= fclose(w.f) == 0;
	}
	free(w.needed);
	if (done)
		return text;
	free(text);
	return 0;
}
