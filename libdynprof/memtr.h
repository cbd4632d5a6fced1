/* memtr.h: the trace of every access to chosen memory.
 *
 * The four functions of memtr (Jokan, Shirakihara, Toshiba) on dynprof, without page protection:
 *
 *	memtr_init();
 *	memtr_regist(frame, sizeof frame);   every load and store of it is recorded from now on
 *	...
 *	memtr_remove(frame);
 *	memtr_end();
 *
 * A program that includes this needs no library to link with. Run by itself all four do nothing,
 * and return DYNPROF_OFF; with hotspots run --regions they return 0, or a negative errno, and
 * hotspots regions shows what was recorded. docs/regions.md tells more.
 */
#ifndef DYNPROF_MEMTR_H
#define DYNPROF_MEMTR_H

#include <stddef.h>

#include "dynprof.h"

/* Whether accesses can be recorded. It may be called any number of times. */
static inline int memtr_init(void) { return dynprof_region_find((const void *)0) == DYNPROF_OFF ? DYNPROF_OFF : 0; }

/* Records all accesses to len bytes at addr from now on, of all threads, and of children that are
 * forked. Where regions overlap an access is of the one that was registered last. -EINVAL: there
 * are no such bytes; -ENOSPC: there are 256 regions at a time, or have been 16,383; -E2BIG: more
 * than 64 GB. */
static inline int memtr_regist(void *addr, size_t len)
{
	int64_t number = dynprof_region_add(addr, len, (const char *)0, 0);
	return number < 0 ? (int)number : 0;
}

/* Ends it, for the region that was registered last of those that begin there. -ENOENT: there is
 * none. */
static inline int memtr_remove(void *addr)
{
	int64_t number = dynprof_region_find(addr);
	return number < 0 ? (int)number : dynprof_region_remove(number);
}

/* Returns when all that was recorded so far is with who writes it. Nothing is lost without. */
static inline int memtr_end(void) { return dynprof_region_flush(); }

#endif
