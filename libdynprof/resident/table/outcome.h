/* What became of an event. */
#ifndef DYNPROF_OUTCOME_H
#define DYNPROF_OUTCOME_H

#include <stdint.h>

#include "base/raw.h"

/* Notes what became of the event in a slot; only if it is still what it was. */
void dp_outcome(uint64_t slot, uint32_t was, uint32_t is) HIDDEN;
/* Of the last event of a counter, if there is one. */
void dp_outcome_of(uint32_t counter, uint32_t is) HIDDEN;
/* A redirect of a counter's function has been refused. */
void dp_refused(uint32_t counter) HIDDEN;
void dp_translator_failed(void) HIDDEN;
/* One line on stderr about the translator. */
void dp_say(const char *what) HIDDEN;

#endif
