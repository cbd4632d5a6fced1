/* dynprof_trace.h: control from inside of what hotspots run --regions and --heat record.
 *
 * As dynprof.h: a program that includes this needs no library to link with, and runs the same
 * with and without. Every function here is then a no-op that returns DYNPROF_OFF, as it does
 * where neither accesses nor touched memory is recorded. Regions themselves are made by
 * dynprof_region_add (dynprof.h) or memtr.h. docs/regions.md tells more.
 *
 * All return 0 or more, or a negative errno, and may be called by any thread and any signal
 * handler, at any time. A pointer to no memory is -EFAULT. What this version of the library does
 * not know, or the run does not do, is -ENOTSUP, and nothing has changed then.
 */
#ifndef DYNPROF_TRACE_H
#define DYNPROF_TRACE_H

#include "dynprof.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is recorded: modes of struct dynprof_trace_options. */
#define DYNPROF_TRACE_HEAT 1u	  /* which memory is touched (hotspots run --heat) */
#define DYNPROF_TRACE_STREAM 2u	  /* all accesses, in order: not there yet, -ENOTSUP */
#define DYNPROF_TRACE_REGIONS 4u  /* accesses to regions (hotspots run --regions) */
#define DYNPROF_TRACE_CALLS 8u	  /* not there yet, -ENOTSUP */
#define DYNPROF_TRACE_SYSCALLS 16u /* not there yet, -ENOTSUP */

/* And of which kinds; LOAD and STORE are DYNPROF_REGION_LOAD and _STORE. */
#define DYNPROF_TRACE_LOAD DYNPROF_REGION_LOAD
#define DYNPROF_TRACE_STORE DYNPROF_REGION_STORE
#define DYNPROF_TRACE_FETCH 4u	  /* not there yet, -ENOTSUP */
#define DYNPROF_TRACE_PREFETCH 8u /* not there yet, -ENOTSUP */

/* What a thread does that finds no room for its records. */
enum {
	DYNPROF_TRACE_WAIT = 0,	     /* it waits */
	DYNPROF_TRACE_OVERWRITE = 1, /* not there yet, -ENOTSUP */
	DYNPROF_TRACE_STOP = 2	     /* not there yet, -ENOTSUP */
};

/* A later version has more members, of which a library that does not know them wants 0: -E2BIG. */
struct dynprof_trace_options {
	uint32_t size;	    /* sizeof(struct dynprof_trace_options) */
	uint32_t modes;	    /* 0: what the run records */
	uint32_t kinds;	    /* of accesses to regions; 0: all that regions have recorded */
	uint32_t when_full;
	uint64_t slice;		   /* 0; others are not there yet: -ENOTSUP */
	uint64_t for_instructions; /* 0, likewise */
	const char *path;	   /* null, likewise */
	const char *objects;	   /* null, likewise */
};

/* Recording goes on, of all threads and processes of the run; options may be null. Accesses to
 * regions are recorded from the very next one on. Touched memory, and what is counted with it,
 * goes on by dynprof_resume(), which needs hotspots run --control: -EOPNOTSUPP without.
 * -EINVAL: a size of no version, or bits of none. */
DYNPROF_FUNCTION int dynprof_trace_on(const struct dynprof_trace_options *options);

/* Recording ends until dynprof_trace_on(), of all threads and processes of the run: accesses to
 * regions at once, touched memory, and what is counted with it, by dynprof_pause(). Regions may be
 * made and removed meanwhile. -EOPNOTSUPP: as above, or an audit needs all that there is. */
DYNPROF_FUNCTION int dynprof_trace_off(void);

/* Accesses of this thread to regions are not recorded (0), or are again (1). A thread or process
 * that it makes begins with what is recorded. -EINVAL: neither; -EOPNOTSUPP: threads share what
 * they count (hotspots run --lock), there is an audit, or touched memory is recorded, which is not
 * of threads; -ENOSPC: there is no room, as for 4,096 threads at a time there is. */
DYNPROF_FUNCTION int dynprof_trace_thread(int on);

/* Puts a mark into the record, behind what this thread has done so far: a name, of which the first
 * 95 bytes are kept, and a value, which hotspots regions shows in their place. It is put there while
 * recording is off, too. -ENOSPC: there are 4,096 different names; -ETIMEDOUT: nobody takes records. */
DYNPROF_FUNCTION int dynprof_trace_mark(const char *name, uint64_t value);

/* Returns when all that was recorded so far is with who writes it; -ETIMEDOUT: nobody does. */
DYNPROF_FUNCTION int dynprof_trace_flush(void);

/* Whether accesses of this thread are recorded now: the lowest byte is one of these, the rest why. */
enum {
	DYNPROF_TRACE_IS_OFF = 0,
	DYNPROF_TRACE_IS_ON = 1,
	DYNPROF_TRACE_IS_WAITING = 2, /* on, and there is no room: who records waits */
	DYNPROF_TRACE_IS_STOPPED = 3  /* for good */
};
#define DYNPROF_TRACE_STATE(state) ((int)((state) & 0xff))
#define DYNPROF_TRACE_WHY(state) ((int)((state) >> 8))
#define DYNPROF_TRACE_BY_PROGRAM 1 /* off: dynprof_trace_off() */
#define DYNPROF_TRACE_BY_THREAD 2  /* dynprof_trace_thread(0), of this thread */
#define DYNPROF_TRACE_BY_PAUSE 4   /* dynprof_pause(), hotspots pause */
#define DYNPROF_TRACE_BY_TIME 8	   /* hotspots run --after, --for: it is not the time for it */
#define DYNPROF_TRACE_NOT_TAKEN 16 /* stopped: nobody has taken records for 10 seconds and more */
#define DYNPROF_TRACE_NOT_WRITTEN 32 /* they cannot be written, as on a full disk */
DYNPROF_FUNCTION int64_t dynprof_trace_state(void);

/* A region, and what was recorded of it; of an allocation site address and length are 0. A later
 * version has more members; size tells which. */
struct dynprof_region {
	uint32_t size;	  /* set by the caller: sizeof(struct dynprof_region) */
	uint32_t flags;	  /* DYNPROF_REGION_LOAD, _STORE: what is recorded of it */
	uint64_t address, length;
	uint64_t accesses;
	uint64_t loads;	  /* accesses that read, */
	uint64_t stores;  /* and that write; some do both */
	uint64_t bytes;	  /* of all accesses */
	uint64_t threads; /* that have made them */
	uint64_t first;	  /* number of the first access, from 1, of all regions; 0: there was none */
	uint64_t last;
	uint32_t removed; /* 1: it was */
	uint32_t unused;
};

/* Fills in *info, of a region that there is, or was: all that was recorded in front of this call
 * is in it, for which that is flushed, some milliseconds at most. -EINVAL: size is not that of a
 * version; -ENOENT: there has been no such region; -ETIMEDOUT: nobody takes records. */
DYNPROF_FUNCTION int dynprof_region_info(int64_t region, struct dynprof_region *info);

#ifdef __cplusplus
}
#endif

#ifndef DYNPROF_LIBRARY
#define dynprof_trace_on(options) DYNPROF_CALL(dynprof_trace_on, options)
#define dynprof_trace_off() DYNPROF_CALL0(dynprof_trace_off)
#define dynprof_trace_thread(on) DYNPROF_CALL(dynprof_trace_thread, on)
#define dynprof_trace_mark(name, value) DYNPROF_CALL(dynprof_trace_mark, name, value)
#define dynprof_trace_flush() DYNPROF_CALL0(dynprof_trace_flush)
#define dynprof_trace_state() DYNPROF_CALL0(dynprof_trace_state)
#define dynprof_region_info(region, info) DYNPROF_CALL(dynprof_region_info, region, info)
#endif

#endif
