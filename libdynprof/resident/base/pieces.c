#define _GNU_SOURCE
#include <sys/mman.h>

#include "base/filters.h"
#include "base/layout.h"
#include "base/lock.h"
#include "base/pieces.h"

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
		long more = ask(SYS_mmap, 0, DP_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (failed(more))
			return 0;
		if (__atomic_compare_exchange_n(&newest, &r, (struct run *)more, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			r = (struct run *)more;
			dp_own((uint64_t)more, DP_PAGE_SIZE);
		} else {
			ask(SYS_munmap, more, DP_PAGE_SIZE); /* another was first */
		}
	}
}
