/* Files that are read. */
#ifndef DYNPROF_WHOLE_H
#define DYNPROF_WHOLE_H

#include <stdint.h>

#include "base/raw.h"

/* A file's text on pages of its own, with a NUL behind it; 0 is none. */
struct dp_whole {
	char *text;
	uint64_t size; /* of the text, */
	uint64_t room; /* of the pages */
};

/* Reads a file that says itself nothing of its size, as those of /proc. */
struct dp_whole dp_read_whole(const char *path) HIDDEN;
void dp_drop_whole(struct dp_whole *w) HIDDEN;

/* Reads the beginning of a file into text, as a string; returns its length, 0 if there is none. */
uint64_t dp_read_start(const char *path, char *text, uint64_t size) HIDDEN;

#endif
