/* A program that takes the GS segment for itself while threads find their rows
 * by it: what it does by arch_prctl at a kernel site is seen, and so is a library
 * that comes later and uses GS. Then counting ends, in the whole fork tree:
 *
 *  1. The table's word says so. From now on no child gets a row (birth.c): it
 *     inherits the GS base as it would without us.
 *  2. Every stub gets a jump over its count in place of its first two bytes, which
 *     never cross a cache line: a thread that comes by runs the old instruction or
 *     the jump. Who is behind the old one has a row yet: the base is each
 *     thread's own.
 *  3. Only then the system call is made, or dlopen goes on.
 *
 * Until then the base is 0 for the program: it is told so, and may set it to 0.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <sys/mman.h>

#include "base/filters.h"
#include "base/regs.h"
#include "base/state.h"
#include "base/stub.h"
#include "rows/chunks.h"
#include "rows/loose.h"
#include "rows/rows.h"
#include "sites/gs.h"
#include "stubs/arenas.h"
#include "stubs/pause.h"
#include "stubs/redirect.h"

static int is_row(uint64_t base)
{
	if (base == (uint64_t)dp.discard || dp_is_loose(base))
		return 1;
	for (uint32_t k = 0; k < DP_CHUNKS; k++) {
		uint64_t chunk = (uint64_t)__atomic_load_n(&dp.chunks[k], __ATOMIC_ACQUIRE), rows = dp_rows_of(k);
		if (chunk && base - chunk < rows * dp.row_stride)
			return 1;
	}
	return 0;
}

static void store_jump(uint8_t *at, uint64_t over) { __atomic_store_n((uint16_t *)at, dp_short_jump((int)over), __ATOMIC_RELEASE); }

/* Has a stub jump to behind its count; its front goes on where it leads. What is
 * redirected, by a jump backwards, stays so. */
static void end_count(uint8_t *stub, const struct dp_origin *o, uint32_t body)
{
	uint64_t front = dp_front_of(o);
	if (front)
		store_jump(stub, front - DP_FRONT_ON);
	if (!(front && stub[front] == DP_OP_JMP_SHORT && stub[front + 1] & 0x80))
		store_jump(stub + front, body - front);
}

/* As the arena is mapped executable, it is written to by another mapping, which
 * is not: no page is ever both. The stubs are shared by the fork tree. The first
 * instruction of each is part of its count. */
static void end_arena(struct dp_known *k)
{
	uint64_t size = k->cold - k->at;
	long view = ask(SYS_mremap, k->at, 0, size, MREMAP_MAYMOVE);
	if (failed(view))
		return;
	if (ask(SYS_mprotect, view, size, PROT_READ | PROT_WRITE) == 0) {
		for (uint64_t i = 0; i < k->origins_count; i++) {
			const struct dp_origin *o = &k->origins[i];
			uint32_t body = dp_run_of(k, o).body;
			if (body)
				end_count((uint8_t *)view + o->at, o, body);
		}
		k->ended = 1;
	}
	ask(SYS_munmap, view, size);
}

static void end_counts(void)
{
	dp_reads();
	uint32_t n = dp_arenas_known();
	for (uint32_t i = 0; i < n; i++) {
		struct dp_known *k = dp_arena_number(i);
		if (!__atomic_load_n(&k->gone, __ATOMIC_ACQUIRE) && !k->ended)
			end_arena(k);
	}
	dp_has_read();
}

void dp_stop(void)
{
	__atomic_store_n(&dp.table->stopped, 1, __ATOMIC_RELEASE);
	long locked = dp_pause_lock(dp.table); /* nobody who resumes puts counts back */
	end_counts();
	if (locked == 0)
		dp_pause_unlock(dp.table);
}

int dp_gs_comes(struct dp_regs *r)
{
	if (dp.shared)
		return 0;
	if ((uint32_t)r->rdi == ARCH_GET_GS)
		return 1;
	if ((uint32_t)r->rdi != ARCH_SET_GS)
		return 0;
	if (r->rsi != 0 || dp_stopped()) {
		dp_stop(); /* here, too: this process may have arenas that others have not */
		return 0;
	}
	r->kept = r->rsi;
	r->rsi = (uint64_t)dp_own_row();
	return 1;
}

void dp_gs_done(struct dp_regs *r)
{
	if ((uint32_t)r->rdi == ARCH_SET_GS)
		r->rsi = r->kept;
	else if (r->rax == 0 && is_row(*(uint64_t *)r->rsi))
		*(uint64_t *)r->rsi = 0;
}
