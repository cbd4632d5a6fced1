/* Who needs memory at a fixed place, ends the program where it is taken, and begins later than we do. */
#ifndef DYNPROF_WANTED_H
#define DYNPROF_WANTED_H

#include "session.h"
#include "table/heat.h"

/* The lowest such place that a loaded object needs. */
struct dp_wanted dp_wanted_place(dp_iterate *iterate) HIDDEN;

#endif
