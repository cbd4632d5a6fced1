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
	uint64_t functions, mapped;
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

/* Takes room for a bit and another for each function; where there is no memory, what
 * is kept for that, which is enough for most programs. Called with the lock. */
int dp_take_marks(struct dp_change *c) HIDDEN;
void dp_leave_marks(const struct dp_change *c) HIDDEN;

#endif
