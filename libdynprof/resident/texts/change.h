/* Which changes of ours go when a program changes its text. */
#ifndef DYNPROF_CHANGE_H
#define DYNPROF_CHANGE_H

#include "texts/undos.h"

/* What is to be given back. */
struct dp_change {
	struct dp_page *page;
	uint64_t low, high; /* the range that the program changes */
	uint8_t *marks;     /* a bit for each function */
	uint8_t *hosts;     /* the same, of those in whose bodies islands stand yet */
	uint64_t functions;
	uint32_t marked, calls;
	int later;          /* islands, too */
	int all;            /* everything, wherever it is */
};

static inline int dp_has_bit(const struct dp_change *c, const uint8_t *bits, uint32_t group)
{
	return group < c->functions && bits[group / 8] >> group % 8 & 1;
}

static inline int dp_is_marked(const struct dp_change *c, uint32_t group) { return c->all || dp_has_bit(c, c->marks, group); }

/* Marks the functions of which a patch or moved code lies in the range. */
void dp_mark_range(struct dp_change *c) HIDDEN;
/* Marks those whose patches stand in dead bodies that come alive. */
void dp_mark_guests(struct dp_change *c) HIDDEN;
/* Whether the change u goes this time. */
int dp_goes(const struct dp_change *c, const struct dp_undo_text *t, const struct dp_undo *u) HIDDEN;
/* Whether islands are left that may go. */
int dp_has_islands(const struct dp_change *c) HIDDEN;
/* Returns how many islands stand in bodies. */
uint32_t dp_note_hosts(const struct dp_change *c) HIDDEN;

/* Makes sure that there is room for marks of all functions, before they are patched:
 * later there may be no memory. Returns 0 if there is none. */
int dp_make_marks(void) HIDDEN;
/* Takes that room, whole: only one gives back. */
void dp_take_marks(struct dp_change *c) HIDDEN;

#endif
