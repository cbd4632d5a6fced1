/* Which changes of ours go when a program changes its text. */
#ifndef DYNPROF_CHANGE_H
#define DYNPROF_CHANGE_H

#include "texts/marks.h"
#include "texts/undos.h"

/* Goes on to the next text that has changes which may go, or may be in their way. */
const struct dp_undo_text *dp_walk_concerned(const struct dp_change *c, struct dp_text_walk *w) HIDDEN;

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

#endif
