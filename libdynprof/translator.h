/* The translator: who is told of hot events, and how. */
#ifndef DYNPROF_TRANSLATOR_H
#define DYNPROF_TRANSLATOR_H

#include <stdint.h>

#include "base/raw.h"
#include "events/ring.h"

/* Tells the translator, if there is one, now or later. */
void dp_tell(const struct dp_hot *e) HIDDEN;
/* Libraries may have been closed. */
void dp_objects_gone(void) HIDDEN;
void dp_translator_forked(void) HIDDEN;

#endif
