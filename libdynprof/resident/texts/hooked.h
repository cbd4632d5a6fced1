/* Texts that are given back piece by piece: their changes by functions. */
#ifndef DYNPROF_HOOKED_H
#define DYNPROF_HOOKED_H

#include "texts/marks.h"
#include "texts/undos.h"

/* One such text. Bits are those of its changes, by number. */
struct dp_hooked {
	struct dp_hooked *next;
	const struct dp_undo_text *text;
	uint64_t *picked;   /* what may go this time */
	uint64_t *standing; /* islands, and what stands in bodies */
	uint32_t *first, *numbers; /* the changes of its function g are numbers[first[g]] to [first[g + 1] - 1] */
	uint64_t exchanged; /* runs of pages, for calls of what was given back */
	int calls_gone;     /* none leads to a stub */
};

/* Lists the changes of a text of which a part goes. */
void dp_list_text(struct dp_change *c, const struct dp_undo_text *t) HIDDEN;

/* The list; 0 where there is none: all changes are to be looked at. */
struct dp_hooked *dp_hooked_text(const struct dp_change *c, const struct dp_undo_text *t) HIDDEN;

/* Picks what may go when the functions are marked. */
void dp_pick(struct dp_change *c, const struct dp_undo_text *t) HIDDEN;

/* What was picked has gone, or was refused. */
void dp_went(struct dp_change *c, const struct dp_undo_text *t) HIDDEN;

/* What comes to be in the range may be a copy of what was there once: calls lead to
 * stubs again. Any thread may say so. */
void dp_text_is_back(uint64_t low, uint64_t high) HIDDEN;
/* Whether the changes of one of these texts are listed. */
int dp_is_listed(const struct dp_undo_text *first, uint64_t count) HIDDEN;

/* The first from i on whose bit is set, n if there is none; without bits, i. */
static inline uint32_t dp_next_bit(const uint64_t *bits, uint32_t i, uint32_t n)
{
	for (; bits && i < n; i = (i / 64 + 1) * 64) {
		uint64_t word = bits[i / 64] >> i % 64;
		if (word)
			return i + (uint32_t)__builtin_ctzll(word);
	}
	return i < n ? i : n;
}

#endif
