/* What text was before we patched it, for translators, who want the program's
 * code. */
#include "texts/original.h"
#include "texts/undos.h"

/* A patch that was not made changes nothing here: its old bytes are there. */
void dp_undo_in(uint8_t *copy, uint64_t at, uint64_t size)
{
	struct dp_text_walk w = dp_walk_texts(at, at + size);
	for (const struct dp_undo_text *t; (t = dp_walk_on(&w));)
		for (uint32_t i = dp_first_near(t, at); i < t->count && dp_change_at(t, i) < at + size; i++) {
			const struct dp_undo u = dp_undo_of(t, i);
			for (uint64_t k = 0; k < u.len; k++)
				if (t->start + u.at + k - at < size)
					copy[t->start + u.at + k - at] = u.old[k];
		}
}
