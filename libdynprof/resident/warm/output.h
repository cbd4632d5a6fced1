/* Which file the table gets. */
#ifndef DYNPROF_OUTPUT_H
#define DYNPROF_OUTPUT_H

#include "base/text.h"
#include "warm/choice.h"

/* What a pattern of names may ask for. */
struct dp_output {
	const char *program; /* path of the executable */
	uint32_t pid;
};

/* The path of the table, whose directory is there if it is the default one. Returns 0 where
 * a planner has to find one, or to say what is wrong. */
int dp_put_output(struct dp_text_buffer *b, const struct dp_choice *c, const struct dp_output *o) HIDDEN;

/* Makes a file of that name, or, where there is one, of another, which path, of size
 * bytes, then has. Returns its descriptor, or -errno. */
long dp_create_output(char *path, uint64_t size) HIDDEN;

#endif
