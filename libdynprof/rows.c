/* Rows: who has which, and where they are mapped.
 *
 * Everything here may run in a signal handler, in any thread, and between a
 * fork's parent and child, so there is no lock:
 *  1. A row's state word is generation << 2 | state. Taking a row makes a new
 *     generation, so that a compare-and-swap with an old word fails.
 *  2. Only the process that took a row first (its owner) takes it again.
 *     Owned rows are linked in a list that only grows.
 *  3. A row is free when the kernel says that its thread is gone: no
 *     instruction of that thread can follow, so nobody else counts there.
 *  4. Counts stay; the next thread counts on top. Totals are sums over rows.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "rows.h"
#include "state.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define ESRCH_ (-3L)
#define EINVAL_ (-22L)

struct dp_state dp HIDDEN;
uint8_t dp_have_wrgsbase HIDDEN;

static uint32_t first_of(uint32_t chunk) { return chunk ? 1u << chunk : 0; }
static uint32_t rows_of(uint32_t chunk) { return chunk ? 1u << chunk : 2; }
static uint32_t chunk_of(uint32_t row) { return row < 2 ? 0 : 31 - (uint32_t)__builtin_clz(row); }

/* The row's address, 0 if its chunk is not mapped in this process. */
uint8_t *dp_row_at(uint32_t row)
{
	uint32_t k = chunk_of(row);
	uint8_t *base = k < DP_CHUNKS ? __atomic_load_n(&dp.chunks[k], __ATOMIC_ACQUIRE) : 0;
	return base ? base + (row - first_of(k)) * dp.row_stride : 0;
}

/* Maps chunk k without a descriptor: mremap with an old size of 0 maps the
 * file again from the page it is given on, as far as the new size reaches. That
 * page is the last one of the nearest chunk below; what lies between is
 * unmapped again. */
static uint8_t *map_chunk(uint32_t k)
{
	uint32_t below = k;
	do
		below--;
	while (!__atomic_load_n(&dp.chunks[below], __ATOMIC_ACQUIRE));
	uint64_t end = first_of(below) + rows_of(below);
	uint8_t *page = dp.chunks[below] + rows_of(below) * dp.row_stride - DP_PAGE_SIZE;
	uint64_t skip = DP_PAGE_SIZE + (first_of(k) - end) * dp.row_stride;
	uint64_t rows = rows_of(k);
	uint64_t size = rows * dp.row_stride;
	long at = raw(SYS_mremap, page, 0, skip + size, MREMAP_MAYMOVE);
	if (failed(at))
		return 0;
	raw(SYS_munmap, at, skip);
	uint8_t *base = (uint8_t *)at + skip, *none = 0;
	if (!__atomic_compare_exchange_n(&dp.chunks[k], &none, base, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
		raw(SYS_munmap, base, size); /* another thread was first */
		return none;
	}
	return base;
}

/* Makes sure that stores to [at, at+size) find room: on a full file system a
 * store to a hole of the file raises SIGBUS. The pages are new, all zero. */
static int reserve(uint8_t *at, uint64_t size)
{
	long ret = raw(SYS_madvise, at, (size + DP_PAGE_SIZE - 1) & ~(uint64_t)(DP_PAGE_SIZE - 1), MADV_POPULATE_WRITE);
	if (ret != EINVAL_)
		return ret == 0;
	/* An older kernel: let it write for us, which fails without a signal. */
	char zero = 0;
	long pid = raw(SYS_getpid);
	for (uint64_t off = 0; off < size; off += DP_PAGE_SIZE) {
		struct { const void *base; uint64_t len; } from = {&zero, 1}, to = {at + off, 1};
		if (raw(SYS_process_vm_writev, pid, &from, 1, &to, 1, 0) != 1)
			return 0;
	}
	return 1;
}

static uint32_t load32(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static void store32(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }

static uint32_t next_word(uint32_t word, uint32_t state)
{
	return ((word | DP_ROW_STATE_MASK) + 1) | state; /* a new generation */
}

/* The stack of free rows. The tag in the upper half changes at every push and
 * pop, so that a head seen twice is the same head. */
static void push_free(uint8_t *row)
{
	uint64_t head = __atomic_load_n(&dp.free_head, __ATOMIC_ACQUIRE), next;
	do {
		store32(dp_u32(row, DP_ROW_NEXT_FREE), (uint32_t)head);
		next = ((head >> 32) + 1) << 32 | (*dp_u32(row, DP_ROW_INDEX) + 1);
	} while (!__atomic_compare_exchange_n(&dp.free_head, &head, next, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
}

static uint8_t *pop_free(void)
{
	uint64_t head = __atomic_load_n(&dp.free_head, __ATOMIC_ACQUIRE), next;
	uint8_t *row;
	do {
		if ((uint32_t)head == 0)
			return 0;
		row = dp_row_at((uint32_t)head - 1);
		next = ((head >> 32) + 1) << 32 | load32(dp_u32(row, DP_ROW_NEXT_FREE));
	} while (!__atomic_compare_exchange_n(&dp.free_head, &head, next, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	store32(dp_u32(row, DP_ROW_STATE), next_word(*dp_u32(row, DP_ROW_STATE), DP_ROW_BIRTHING));
	return row;
}

static void push_owned(uint8_t *row)
{
	uint32_t head = load32(&dp.owned_head);
	do
		store32(dp_u32(row, DP_ROW_NEXT_OWNED), head);
	while (!__atomic_compare_exchange_n(&dp.owned_head, &head, *dp_u32(row, DP_ROW_INDEX) + 1, 0,
					    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
}

/* Whether the thread or process on the row is gone, by the kernel's word. A
 * number that has been given to somebody else only delays the answer. */
static int gone(uint8_t *row)
{
	uint32_t tid = load32(dp_u32(row, DP_ROW_TID));
	if (tid == 0)
		return 0;
	if (*dp_u32(row, DP_ROW_KIND) == DP_ROW_THREAD)
		return raw(SYS_tgkill, dp.pid, tid, 0) == ESRCH_;
	return raw(SYS_kill, tid, 0) == ESRCH_;
}

/* Frees the owned rows whose threads are gone. */
static void scan(void)
{
	uint32_t alive = 0;
	for (uint32_t link = load32(&dp.owned_head); link;) {
		uint8_t *row = dp_row_at(link - 1);
		uint32_t word = load32(dp_u32(row, DP_ROW_STATE));
		if ((word & DP_ROW_STATE_MASK) == DP_ROW_LIVE) {
			uint32_t free_word = (word & ~(uint32_t)DP_ROW_STATE_MASK) | DP_ROW_FREE;
			if (!gone(row))
				alive++;
			else if (__atomic_compare_exchange_n(dp_u32(row, DP_ROW_STATE), &word, free_word, 0,
							     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
				push_free(row);
		}
		link = load32(dp_u32(row, DP_ROW_NEXT_OWNED));
	}
	store32(&dp.alive_at_scan, alive);
	store32(&dp.taken_since, 0);
}

/* A row that nobody had before. */
static uint8_t *take_fresh(void)
{
	uint32_t *used = dp_u32(dp.table, DP_HDR_ROWS_USED);
	if (load32(used) >= dp.rows_max)
		return 0;
	uint32_t index = __atomic_fetch_add(used, 1, __ATOMIC_ACQ_REL);
	if (index >= dp.rows_max) {
		__atomic_fetch_sub(used, 1, __ATOMIC_ACQ_REL);
		return 0;
	}
	uint8_t *row = dp_row_at(index);
	if (!row && map_chunk(chunk_of(index)))
		row = dp_row_at(index);
	/* A row whose room cannot be had stays unused: its number is spent. */
	if (!row || (index >= *dp_u32(dp.table, DP_HDR_ROWS_RESERVED) && !reserve(row, dp.row_used)))
		return 0;
	*dp_u32(row, DP_ROW_INDEX) = index;
	*dp_u32(row, DP_ROW_OWNER) = dp.incarnation;
	store32(dp_u32(row, DP_ROW_STATE), DP_ROW_BIRTHING);
	push_owned(row);
	__atomic_fetch_add(&dp.taken_since, 1, __ATOMIC_RELAXED);
	return row;
}

enum { FRESH_BEFORE_SCAN = 8 };

/* Takes a row for a thread or process (DP_ROW_THREAD, DP_ROW_PROCESS) that is
 * about to be made; 0 if there is no room. Looking for dead threads costs a
 * system call a row, which a sandbox may not like either, so it is done once
 * for every half as many fresh rows, and not for the first few. */
uint8_t *dp_row_take(uint32_t kind)
{
	uint8_t *row = pop_free();
	if (!row && load32(&dp.taken_since) >= FRESH_BEFORE_SCAN + load32(&dp.alive_at_scan) / 2) {
		scan();
		row = pop_free();
	}
	if (!row)
		row = take_fresh();
	if (!row) {
		__atomic_fetch_add(dp_u32(dp.table, DP_HDR_THREADS_DISCARDED), 1, __ATOMIC_RELAXED);
		return 0;
	}
	*dp_u32(row, DP_ROW_KIND) = kind;
	*dp_u32(row, DP_ROW_PID) = 0;
	*dp_u32(row, DP_ROW_TID) = 0;
	return row;
}

/* The thread was made and has that number, or was not made after all. */
void dp_row_made(uint8_t *row, long tid)
{
	uint32_t *state = dp_u32(row, DP_ROW_STATE);
	uint32_t word = *state & ~(uint32_t)DP_ROW_STATE_MASK;
	if (failed(tid)) {
		store32(state, word | DP_ROW_FREE);
		push_free(row);
		return;
	}
	*dp_u32(row, DP_ROW_PID) = *dp_u32(row, DP_ROW_KIND) == DP_ROW_THREAD ? dp.pid : (uint32_t)tid;
	store32(dp_u32(row, DP_ROW_TID), (uint32_t)tid);
	store32(state, word | DP_ROW_LIVE);
}

/* This process starts with this row and owns no other yet. */
void dp_rows_begin(uint8_t *row)
{
	dp.incarnation = __atomic_add_fetch(dp_u32(dp.table, DP_HDR_PROCESSES), 1, __ATOMIC_ACQ_REL);
	dp.pid = (uint32_t)raw(SYS_getpid);
	dp.free_head = 0;
	dp.owned_head = dp.alive_at_scan = dp.taken_since = 0;
	*dp_u32(row, DP_ROW_INCARNATION) = dp.incarnation;
}
