/* Objects that are loaded later. */
#ifndef DYNPROF_LATE_H
#define DYNPROF_LATE_H

#include <elf.h>
#include <stdint.h>

#include "base/ctl.h"
#include "base/raw.h"

/* A session with a planner: one at the start, one for objects that come later. */
struct dp_session {
	struct dp_ctl *ctl;
	uint64_t scratch_size;
	uint64_t text_size; /* bytes of code that may be counted */
	uint32_t objects;   /* how many there are */
	uint32_t listed;    /* with those that are planned already */
	uint32_t vars;      /* and how many variables of the environment may be ours */
	int translator;     /* calls can be sent to other code */
	int keep;           /* the reserve stays, for later objects and the agent */
	uint64_t strings;   /* bytes of names and variables that are copied */
	int outside;        /* scratch memory is of files, for a program of its own */
	int cache;          /* plans are kept for later starts */
	int blocks;         /* of functions are counted, or calls by site: copies, and stubs of sites, need room */
	int touches;        /* what copies touch is noted, or recorded: what accesses memory takes more */
	int hot;            /* blocks, of functions from their thresholds on: copies without counters, too */
	int listen;         /* the twin may become the endpoint for metrics */
	const Elf64_auxv_t *auxv;
};

/* Copies of whole functions, with what tells of them, take so many times as much as stubs. */
static inline uint64_t copies_take(const struct dp_session *s)
{
	enum { COPIES = 3, SECOND = 2, NOTES = 12 }; /* a touch or a guard takes more than what it is of, dense ones 30 times */
	if (!s->blocks)
		return 1;
	return (s->touches ? NOTES : COPIES) + (s->keep || s->hot ? SECOND : 0);
}

/* Keeps what later sessions need of the first. Returns the table's path, kept; 0 if
 * there will be none. */
const char *dp_keep(const struct dp_session *s, uint64_t r_debug) HIDDEN;
/* Stands in for the dynamic linker's function, and the part of it that is C. */
void dp_objects_changed(void) HIDDEN;
void dp_new_objects(void) HIDDEN;
/* Somebody who plans has come, while all threads are stopped but this one: those that nobody has
 * planned are as new. Returns how many there were, or 0 and why they are not counted; 0 if there
 * are none. */
uint32_t dp_add_passed(const char **why) HIDDEN;
extern const char dp_loads[] HIDDEN; /* that is why: it may be tried again in a moment */
extern int dp_meets HIDDEN;	     /* a thread is in dp_new_objects */

/* Entries of an auxiliary vector, its end included. */
static inline uint64_t auxv_count(const Elf64_auxv_t *auxv)
{
	uint64_t n = 0;
	while (auxv[n++].a_type != AT_NULL)
		;
	return n;
}

#endif
