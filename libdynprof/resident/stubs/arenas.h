/* The arenas of this process: where each lies, what its code stands for, and
 * which pages of text lead there. Handlers, other threads and forked children
 * read it without a lock. Those of objects that were closed go (undos.c), and their
 * entries serve others. */
#ifndef DYNPROF_ARENAS_H
#define DYNPROF_ARENAS_H

#include <stdint.h>

#include "base/ctl.h"
#include "base/raw.h"
#include "base/stub.h"

/* The size of the front that a record's stub begins with. */
static inline uint64_t dp_front_of(const struct dp_origin *o)
{
	if (!(o->flags & DP_HAS_FRONT))
		return 0;
	return o->flags & DP_KEEPS_FLAGS ? DP_FRONT_FLAGS : DP_FRONT_PLAIN;
}

/* A jump in original text, and the branch that hops to it. */
struct dp_island {
	uint64_t at, from;
};

/* An arena that is mapped. All but the last two is stored before it is known. */
struct dp_known {
	uint64_t at, end, cold, keeps; /* run addresses; cold: of its cold blocks, keeps: of its keep blocks */
	const struct dp_origin *origins;
	const uint8_t (*lengths)[2]; /* of an instruction: original, copy */
	const uint32_t *by_text;     /* the origins, by where they were */
	uint64_t origins_count;
	const struct dp_island *islands;
	uint64_t islands_count;
	const struct dp_trap *traps;
	uint64_t traps_count;
	uint64_t view, view_size; /* of row 0, if all threads share it */
	uint32_t number;
	/* Made after a fork, in memory of this process's own: others, who might
	 * resume, do not know it. It is never paused. */
	uint8_t alone;
	uint8_t ended;	  /* its stubs have ended counting (gs.c) */
	uint8_t gone;	  /* enum dp_gone */
	uint64_t whole;	  /* the end of the pages that follow its code */
	uint64_t session; /* where the lists of what it was made with lie (undos.c) */
	uint8_t *lasting; /* its code, writable for good, if stubs are redirectable */
};

enum dp_gone {
	DP_THERE,
	DP_REPLACED, /* the program has put something else there (replaced.c), or may still be told of it: its place is not ours to give back */
	DP_CLOSED,   /* its objects are gone: nobody finds it any more */
	DP_FREE,     /* it is unmapped */
};

/* How many are looking at what arenas and lists of changes tell, and would fault if these were
 * unmapped: threads, and handlers that have interrupted them. Who never comes back, since a
 * handler has left for elsewhere, counts for ever: then nothing is unmapped any more. */
extern uint32_t dp_readers HIDDEN;
static inline void dp_reads(void) { __atomic_fetch_add(&dp_readers, 1, __ATOMIC_SEQ_CST); }
static inline void dp_has_read(void) { __atomic_fetch_sub(&dp_readers, 1, __ATOMIC_SEQ_CST); }
static inline int dp_is_read(void) { return __atomic_load_n(&dp_readers, __ATOMIC_SEQ_CST) != 0; }

/* What a record tells of the copies. */
struct dp_run {
	const uint8_t (*lengths)[2]; /* of each: original, copy */
	uint32_t count;	     /* instructions */
	uint32_t body;	     /* bytes of front and count before the first */
};

static inline uint32_t dp_origin_word(const uint8_t (*lengths)[2])
{
	return lengths[0][0] | (uint32_t)lengths[0][1] << 8 | (uint32_t)lengths[1][0] << 16 | (uint32_t)lengths[1][1] << 24;
}

/* A long run's numbers are two words in front of its lengths, which may be at any
 * even address. */
static inline struct dp_run dp_run_of(const struct dp_known *c, const struct dp_origin *o)
{
	const uint8_t(*lengths)[2] = c->lengths + o->lengths / 2;
	if (o->flags & DP_IS_LONG)
		return (struct dp_run){lengths + DP_LONG_SIZE / 2, dp_origin_word(lengths + DP_LONG_MANY / 2), dp_origin_word(lengths + DP_LONG_COUNT / 2)};
	return (struct dp_run){lengths, o->few, o->small};
}

/* Makes mapped arenas known, before their patches are applied: all of them and 0,
 * or none and why. One thread does so at a time: the dynamic linker's lock is
 * held. */
const char *dp_know_arenas(const struct dp_ctl *ctl) HIDDEN;
/* An arena's place is the program's from now on. */
void dp_arena_goes(struct dp_known *k) HIDDEN;
/* The objects of a session are gone. Its arenas are closed, as far as they are still ours, and
 * none of them is found by address any more, nor by the texts that lie in [low, high). */
void dp_arenas_close(uint64_t session, uint64_t low, uint64_t high) HIDDEN;
/* Closed arenas are unmapped; or, as somebody may have found them before, never will be. */
void dp_arenas_unmap(uint64_t session) HIDDEN;
void dp_arenas_leave(uint64_t session) HIDDEN;
/* A process is made that has the arenas of this one, whose pages are the same. How many were? */
extern uint32_t dp_arenas_shared HIDDEN;
/* None is known any more. There is one thread. */
void dp_forget_arenas(void) HIDDEN;

/* The arena that holds an address; 0 if none does. */
const struct dp_known *dp_arena_at(uint64_t at) HIDDEN;
/* The arena that text at an address leads to; 0 if none does. */
const struct dp_known *dp_arena_of_text(uint64_t at) HIDDEN;
/* The last record of an arena that starts at or before an offset in it; 0 if none does. */
const struct dp_origin *dp_origin_at(const struct dp_known *c, uint64_t at) HIDDEN;
/* Where code at a run address can be written to; -ENXIO: it is no arena
 * of this process; -EPERM: nowhere. */
long dp_stub_writable(uint64_t at, uint8_t **to) HIDDEN;
/* The number of the cold block that holds at, and the address behind its arena. */
int dp_cold_number(uint64_t at, uint64_t *number, uint64_t *behind) HIDDEN;
/* All of them, by number. */
uint32_t dp_arenas_known(void) HIDDEN;
struct dp_known *dp_arena_number(uint32_t n) HIDDEN;

#endif
