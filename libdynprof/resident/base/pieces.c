#define _GNU_SOURCE
#include <sys/mman.h>

#include "base/filters.h"
#include "base/layout.h"
#include "base/lock.h"
#include "base/pages.h"
#include "base/pieces.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* The first is among our variables, behind which is a file: programs that test memory write
 * over what is anonymous, while handlers are entered that read here
 * (docs/architecture.md, "Memory that the program writes over"). */
enum { ZEROS = 256 << 10 };
static uint8_t zeros[ZEROS] __attribute__((aligned(DP_PAGE_SIZE)));

void *dp_zeros(uint64_t size, int populate)
{
	static uint64_t used;
	uint64_t at = __atomic_load_n(&used, __ATOMIC_RELAXED);
	size = pages(size);
	while (size <= ZEROS - at)
		if (__atomic_compare_exchange_n(&used, &at, at + size, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			if (populate)
				ask(SYS_madvise, &zeros[at], size, MADV_POPULATE_WRITE); /* a kernel before 5.14 does not know how */
			return &zeros[at];
		}
	long more = ask(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (populate ? MAP_POPULATE : 0), -1, 0);
	if (failed(more))
		return 0;
	dp_own((uint64_t)more, size);
	return (void *)more;
}

enum { ROOM = DP_PAGE_SIZE - 8 };

/* A page of them. */
struct run {
	uint64_t used;
	uint8_t pieces[ROOM];
};

void *dp_piece(uint64_t size)
{
	static struct run *newest;
	struct run *r = __atomic_load_n(&newest, __ATOMIC_ACQUIRE);
	for (;;) {
		uint64_t at = r ? __atomic_fetch_add(&r->used, size, __ATOMIC_RELAXED) : ROOM;
		if (at + size <= ROOM)
			return &r->pieces[at];
		struct run *more = dp_zeros(sizeof *more, 0);
		if (!more)
			return 0;
		if (__atomic_compare_exchange_n(&newest, &r, more, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			r = more; /* else another was first, and a page is lost */
	}
}
