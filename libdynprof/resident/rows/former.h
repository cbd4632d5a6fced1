/* Who had a row before. */
#ifndef DYNPROF_FORMER_H
#define DYNPROF_FORMER_H

#include <stdint.h>

#include "base/layout.h"
#include "base/raw.h"

void dp_note_former(struct dp_row *row) HIDDEN;

#endif
