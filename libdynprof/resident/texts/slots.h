/* Slots of the PLT that calls are led past. */
#ifndef DYNPROF_SLOTS_H
#define DYNPROF_SLOTS_H

#include "texts/undos.h"

/* The slot by which calls of a function go, if, by what is in it now, they come to the
 * function's stub: in another process it may be another's, whom somebody put in front;
 * 0: it is not so. The function's entry is patched. */
const uint64_t *dp_slot_to(const struct dp_undo_text *t, const struct dp_led *led) HIDDEN;

/* The slots of a text's calls lie in the range. Returns 0 if there is no memory to note
 * that. One thread at a time may say so. */
int dp_watch_slots(const struct dp_undo_text *t, uint64_t low, uint64_t high) HIDDEN;

/* The slots of one text. */
struct dp_slots {
	const struct dp_undo_text *text;
	uint64_t low, high; /* high is 0 when no call is led past them any more */
};

/* Slots in the range; 0: there are none. Any thread may ask. */
struct dp_slots *dp_slots_in(uint64_t low, uint64_t high) HIDDEN;
/* No call is led past them. */
void dp_forget_slots(struct dp_slots *s) HIDDEN;
/* Whether slots of one of these texts are watched. */
int dp_has_slots(const struct dp_undo_text *first, uint64_t count) HIDDEN;

#endif
