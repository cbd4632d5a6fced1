/* dynprof_snapshot(). */
#ifndef DYNPROF_COPY_H
#define DYNPROF_COPY_H

#include <stdint.h>

#include "base/layout.h"
#include "base/raw.h"

long dp_copy(const struct dp_header *view, const char *path) HIDDEN;

#endif
