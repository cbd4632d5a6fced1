/* Groups of patches that cannot be made. */
#ifndef DYNPROF_REFUSED_H
#define DYNPROF_REFUSED_H

#include <stdint.h>

#include "base/raw.h"

/* One bit each, once there is one. */
struct dp_refused {
	uint8_t *bits;
	uint64_t size;
	uint32_t groups; /* how many, of functions */
	int signals;	 /* the signal sites */
	int all;	 /* no memory for the bits: none is made */
};

int dp_is_refused(const struct dp_refused *r, uint32_t group) HIDDEN;
void dp_refuse(struct dp_refused *r, uint32_t group) HIDDEN;
/* Takes the memory for the bits. Returns 0 if there is none. */
int dp_make_refused(struct dp_refused *r) HIDDEN;

#endif
