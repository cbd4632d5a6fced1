#ifndef DYNPROF_PAGES_H
#define DYNPROF_PAGES_H

#include <elf.h>
#include <stdint.h>

#include "base/layout.h"

/* Bytes of the pages that n bytes take. */
static inline uint64_t pages(uint64_t n)
{
	return (n + DP_PAGE_SIZE - 1) & ~(uint64_t)(DP_PAGE_SIZE - 1);
}

/* Bytes of the pages that a segment lies on, at most. */
static inline uint64_t dp_pages_of(const Elf64_Phdr *p) { return pages(p->p_memsz) + DP_PAGE_SIZE; }

#endif
