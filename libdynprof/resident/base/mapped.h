/* Memory that may not be there, and address space that nothing is at. */
#ifndef DYNPROF_MAPPED_H
#define DYNPROF_MAPPED_H

#include <stdint.h>
#include <sys/mman.h>

#include "base/raw.h"

/* Whether an address is in what a caller has on its stack, or little above: there is
 * something to read. stack: its stack pointer. */
static inline int dp_on_stack(uint64_t at, uint64_t stack)
{
	enum { RED_ZONE = 128, NEAR = 64 << 10 };
	return at - (stack - RED_ZONE) < NEAR;
}

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Where memory may go that is soon given back, as the first argument of mmap: below the
 * libraries, and further than their arenas. Each time another place. */
uint64_t dp_far_below(uint64_t size) HIDDEN;

/* Takes [at, at+size) for pages to come, unless something is there. Reports whether it
 * did. */
int dp_hold(uint64_t at, uint64_t size) HIDDEN;

/* Whether nothing is mapped in [at, at+size), where the kernel says so; used is mapped. Nothing is
 * changed, for no moment. */
int dp_is_empty(uint64_t at, uint64_t size, uint64_t used) HIDDEN;

/* Copies n bytes of this process's memory which may not be there to read: a hole
 * of a full file system. Returns whether it could. */
int dp_read_quietly(void *to, const void *from, uint64_t n) HIDDEN;

/* Copies n bytes to memory of this process which may not be there, or not to be written to. Returns
 * whether it could. */
int dp_write_quietly(void *to, const void *from, uint64_t n) HIDDEN;

/* Copies n bytes of what the program hands to a system call, which may be at a bad
 * address; stack: its stack pointer. What lies there, as mostly, can be read. */
int dp_read_argument(void *to, uint64_t from, uint64_t n, uint64_t stack) HIDDEN;

/* Whether instructions can be fetched at an address. */
int dp_is_executable(uint64_t at) HIDDEN;

#endif
