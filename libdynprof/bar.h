/* How far planning is, at a terminal. */
#ifndef DYNPROF_BAR_H
#define DYNPROF_BAR_H

#include <stdint.h>

#include "base/ctl.h"
#include "base/raw.h"

struct dp_bar {
	int64_t told; /* ms of waiting: when it was told last */
	int state;
};

void dp_bar_tell(struct dp_bar *b, const struct dp_ctl *ctl, int64_t waited) HIDDEN;
void dp_bar_end(const struct dp_bar *b) HIDDEN;

#endif
