/* Writes a section of a file, in order; or of one that is mapped. */
#ifndef DYNPROF_SINK_H
#define DYNPROF_SINK_H

#include <stdint.h>

#include "base/raw.h"

enum { DP_SINK_ROOM = 64 << 10 };

struct dp_sink {
	long fd;
	uint8_t *mapped; /* the file; 0: it is written to */
	uint64_t at;	 /* in the file, of what is in the room */
	uint8_t *room;	 /* DP_SINK_ROOM bytes */
	uint64_t used;
	int bad;	 /* something could not be written */
};

/* Room for n bytes, at most DP_SINK_ROOM, that come next. */
void *dp_sink_next(struct dp_sink *s, uint64_t n) HIDDEN;
/* Adds any number of bytes. */
void dp_sink_put(struct dp_sink *s, const void *bytes, uint64_t n) HIDDEN;
/* Writes what is left. Reports whether all was written. */
int dp_sink_flush(struct dp_sink *s) HIDDEN;

#endif
