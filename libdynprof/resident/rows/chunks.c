/* Where rows are mapped, and their room. May run wherever rows.c does. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "base/filters.h"
#include "base/kept.h"
#include "base/own.h"
#include "base/state.h"
#include "rows/chunks.h"
#include "rows/rows.h"
#include "rows/space.h"

#define EINVAL_ (-22L)

/* The row's address, 0 if its chunk is not mapped in this process. */
struct dp_row *dp_row_at(uint32_t row)
{
	uint32_t k = dp_chunk_of(row);
	uint8_t *base = k < DP_CHUNKS ? __atomic_load_n(&dp.chunks[k], __ATOMIC_ACQUIRE) : 0;
	return base ? (struct dp_row *)(base + (row - dp_first_of(k)) * dp.row_stride) : 0;
}

/* Maps chunk k without a descriptor: mremap with an old size of 0 maps the
 * file again from the page it is given on, as far as the new size reaches. That
 * page is the last one of the nearest chunk below; what lies between is
 * unmapped again. */
uint8_t *dp_map_chunk(uint32_t k)
{
	static struct dp_kept kept[DP_CHUNKS];
	uint32_t below = k;
	do
		below--;
	while (!__atomic_load_n(&dp.chunks[below], __ATOMIC_ACQUIRE));
	uint64_t end = dp_first_of(below) + dp_rows_of(below);
	uint8_t *page = dp.chunks[below] + dp_rows_of(below) * dp.row_stride - DP_PAGE_SIZE;
	uint64_t skip = DP_PAGE_SIZE + (dp_first_of(k) - end) * dp.row_stride;
	uint64_t rows = dp_rows_of(k);
	uint64_t size = rows * dp.row_stride;
	dp_space_more(skip + size);
	long at = ask(SYS_mremap, page, 0, skip + size, MREMAP_MAYMOVE);
	if (failed(at)) {
		dp_space_less(skip + size);
		return 0;
	}
	ask(SYS_munmap, at, skip);
	dp_space_less(skip);
	uint8_t *base = (uint8_t *)at + skip, *none = 0;
	if (!__atomic_compare_exchange_n(&dp.chunks[k], &none, base, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
		ask(SYS_munmap, base, size); /* another thread was first */
		dp_space_less(size);
		return none;
	}
	dp_note_kept(&kept[k], base, size);
	return base;
}

/* The row's address, whoever took it; 0 if there is no address space. */
struct dp_row *dp_row_map(uint32_t row)
{
	struct dp_row *at = dp_row_at(row);
	if (!at && dp_chunk_of(row) < DP_CHUNKS && dp_map_chunk(dp_chunk_of(row)))
		at = dp_row_at(row);
	return at;
}

/* Makes sure that stores to [at, at+size) find room: on a full file system a
 * store to a hole of the file raises SIGBUS. What is there is of no use. */
int dp_make_room(void *at, uint64_t size)
{
	long ret = ask(SYS_madvise, at, (size + DP_PAGE_SIZE - 1) & ~(uint64_t)(DP_PAGE_SIZE - 1), MADV_POPULATE_WRITE);
	if (ret != EINVAL_)
		return ret == 0;
	/* An older kernel: let it write for us, which fails without a signal. */
	char zero = 0;
	long task = own_task();
	for (uint64_t off = 0; off < size; off += DP_PAGE_SIZE) {
		struct { const void *base; uint64_t len; } from = {&zero, 1}, to = {(uint8_t *)at + off, 1};
		if (ask(SYS_process_vm_writev, task, &from, 1, &to, 1, 0) != 1)
			return 0;
	}
	return 1;
}

struct dp_row *dp_own_row(void)
{
	uint64_t self;
	uint32_t index;
	__asm__ volatile("movl %%gs:%c1, %0" : "=r"(index) : "i"(DP_ROW_INDEX));
	if (index != DP_NO_ROW)
		return dp_row_at(index);
	__asm__ volatile("movq %%gs:%c1, %0" : "=r"(self) : "i"(DP_ROW_SELF));
	return (struct dp_row *)self;
}
