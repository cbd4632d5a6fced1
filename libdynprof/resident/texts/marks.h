/* What a program changes, and the functions that are given back for that. */
#ifndef DYNPROF_MARKS_H
#define DYNPROF_MARKS_H

#include "texts/undos.h"

/* What is to be given back. */
struct dp_change {
	struct dp_page *page;
	uint64_t low, high; /* the range that the program changes */
	uint8_t *marks;     /* a bit for each function */
	uint8_t *hosts;     /* the same, of those in whose bodies islands stand yet */
	uint64_t functions;
	uint64_t first, last; /* none in front or behind is marked */
	uint32_t marked, calls;
	const struct dp_undo_text *calls_of; /* all calls of this one, too (hooked.c); 0: of none */
	int later;          /* islands, too */
	int all;            /* everything, wherever it is */
	int returns;        /* what handlers return to, too */
};

static inline int dp_has_bit(const struct dp_change *c, const uint8_t *bits, uint32_t group)
{
	return group < c->functions && bits[group / 8] >> group % 8 & 1;
}

static inline int dp_is_marked(const struct dp_change *c, uint32_t group) { return c->all || dp_has_bit(c, c->marks, group); }

/* Makes sure that there is room for marks of all functions, before they are patched:
 * later there may be no memory. Returns 0 if there is none. */
int dp_make_marks(void) HIDDEN;
/* Takes that room, whole: only one gives back. */
void dp_take_marks(struct dp_change *c) HIDDEN;
void dp_mark(struct dp_change *c, uint32_t group) HIDDEN;

#endif
