/* Where text of the program's has changes of ours, for a first look. */
#ifndef DYNPROF_TEXTS_H
#define DYNPROF_TEXTS_H

#include <stdint.h>

#include "base/raw.h"

/* Whether text with changes of ours may be in [low, high), or an arena, or what we
 * keep (kept.h). Any thread may ask. */
int dp_texts_in(uint64_t low, uint64_t high) HIDDEN;

/* Whether there surely is none in size bytes from low on; for slowpath.S: no
 * register but rax changes. */
__attribute__((no_caller_saved_registers)) uint64_t dp_texts_far(uint64_t low, uint64_t size) HIDDEN;

/* Texts are added and, all at once, forgotten between these two, by one thread at a
 * time. dp_texts_begin reports whether those that were added are still known. */
int dp_texts_begin(void) HIDDEN;
void dp_texts_end(void) HIDDEN;
void dp_texts_add(uint64_t low, uint64_t high) HIDDEN;
void dp_texts_forget(void) HIDDEN;

#endif
