/* What is mapped in this process, as /proc/self/maps tells. */
#ifndef DYNPROF_WARM_MAPS_H
#define DYNPROF_WARM_MAPS_H

#include <stdint.h>

#include "base/raw.h"
#include "base/whole.h"

struct dp_mapping {
	uint64_t start, end, offset, inode;
	const char *path; /* "" is none; as the kernel prints it */
	uint32_t prot;
};

struct dp_maps {
	struct dp_mapping *list; /* in the order of their addresses */
	uint64_t count;
	struct dp_whole text;	 /* where the paths are */
	uint64_t room;		 /* bytes of the list's pages; 0: it is behind the text */
};

/* Returns 0 if it cannot be told. */
int dp_read_maps(struct dp_maps *m) HIDDEN;
void dp_drop_maps(struct dp_maps *m) HIDDEN;

#endif
