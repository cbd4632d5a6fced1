/* Pages that take the place of text. */
#ifndef DYNPROF_EXCHANGE_H
#define DYNPROF_EXCHANGE_H

#include <stdint.h>

#include "base/raw.h"
#include "texts/undos.h"

/* Some text is in memory that is no file's any more. */
extern int dp_text_anonymous HIDDEN;

long dp_map_anonymous(uint64_t size) HIDDEN;

/* Copies memory that is there, as words. */
void dp_copy_words(uint64_t to, uint64_t from, uint64_t size) HIDDEN;

/* Pages for the text at at with the bytes of those at made, which go where they are
 * not taken themselves; 0 if there are none. */
uint64_t dp_pages_of_text(const struct dp_undo_text *t, uint64_t at, uint64_t made, uint64_t size) HIDDEN;

/* Puts new pages in place of those at low. Returns 0, without them, if that is refused. */
int dp_exchange(uint64_t low, uint64_t new, uint64_t size) HIDDEN;

/* Whether nobody else runs in this memory. */
int dp_is_alone(void) HIDDEN;

#endif
