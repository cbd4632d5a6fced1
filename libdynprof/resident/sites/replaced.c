/* A program that gives text of its own back to the kernel, takes it away, or maps
 * something in its place, does so by pages. A jump of ours that lies on two would be
 * cut in half, or lead to an island that is no more. So the system calls are kernel
 * sites. They are among those that programs make most: first there is one look at a
 * sorted list (texts.c), and mostly no text.
 *
 *  1. Pages that madvise(MADV_DONTNEED) gives back are the file's from then on, as
 *     to the program they are before. The call is made for those without changes of
 *     ours; the others are what they shall be.
 *  2. Before others' place is taken, by nothing or by anything, what concerns them
 *     is given back (giveback.c).
 *  3. But not if a copy of them takes it, as for large pages: it has our changes,
 *     and all goes on. So it is for memory that is yet to be filled. Else the first
 *     change tells what it is.
 *  4. Where system calls are among it that we must know of, as in libc, we withdraw.
 *  5. Memory of ours that stubs are in is treated alike: all that leads there is
 *     given back before the program takes its place.
 *  6. Before it takes that of rows, of the table, or of the library, we withdraw:
 *     who restores a checkpoint in its own process takes all that it does not know.
 * The dynamic linker's own calls are no sites: what it unmaps is closed. In a static program they
 * are all others', too: then it says that it closes something.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <sys/mman.h>

#include "base/filters.h"
#include "base/kept.h"
#include "base/layout.h"
#include "base/mapped.h"
#include "base/pages.h"
#include "base/state.h"
#include "base/stub.h"
#include "sites/gs.h"
#include "sites/replaced.h"
#include "sites/withdraw.h"
#include "stubs/arenas.h"
#include "table/heat.h"
#include "texts/giveback.h"
#include "texts/hooked.h"
#include "texts/letrun.h"
#include "texts/patched.h"
#include "texts/texts.h"
#include "texts/undos.h"

enum { ADVICE_DONTNEED = 4, ADVICE_DONTNEED_LOCKED = 24, ADVICE_GUARD = 102, REMAP_MAYMOVE = 1, REMAP_FIXED = 2 };

/* Pages from low on, of an address that the kernel takes. */
struct span {
	uint64_t low, high;
};

static int has_text(struct span s)
{
	return !(s.low & (DP_PAGE_SIZE - 1)) && s.low < s.high && dp_texts_in(s.low, s.high);
}

static struct span span(uint64_t at, uint64_t size) { return (struct span){at, at + pages(size)}; }

/* Once: from then on the call is not made by a thunk. */
static void leaves(struct dp_regs *r)
{
	if (dp_arena_at(r->rcx))
		dp_withdraw(r);
}

/* The span's text goes. */
static void goes(struct dp_regs *r, struct span s)
{
	if (dp_has_site(s.low, s.high))
		leaves(r);
	else if (dp_is_patched(s.low, s.high))
		dp_give_range(s.low, s.high);
}

/* ---- madvise ------------------------------------------------------------ */

/* As the kernel has it: what is not mapped does not keep it from the rest. */
static long advise(struct span s, uint64_t advice)
{
	long ret = 0;
	for (uint64_t at = s.low, page; at < s.high; at = page + DP_PAGE_SIZE) {
		page = dp_patched_page(at, s.high);
		long err = page > at ? ask(SYS_madvise, at, page - at, advice) : 0;
		if (err == -ENOMEM)
			ret = err;
		else if (failed(err) && err != REFUSED)
			return err;
	}
	return ret;
}

static void advice_comes(struct dp_regs *r)
{
	struct span s = span(r->rdi, r->rsi);
	uint32_t advice = (uint32_t)r->rdx;
	int gives = advice == ADVICE_DONTNEED || advice == ADVICE_DONTNEED_LOCKED;
	if ((!gives && advice != ADVICE_GUARD) || !has_text(s))
		return;
	if (!gives) {
		goes(r, s);
	} else if (dp_patched_page(s.low, s.high) < s.high && dp_may(SYS_madvise, r->rdi, r->rsi, r->rdx, 0)) {
		r->rax = (uint64_t)advise(s, advice);
		r->rcx += DP_THUNK_SYSCALL;
	}
}

/* ---- what takes the place of others --------------------------------------- */

/* Text that leads to the arena is given back, and whoever runs there let out. */
static void arena_goes(struct dp_regs *r, struct dp_known *k)
{
	struct span s = {0, 0};
	while (!dp_withdrawn && dp_next_text(s.high, &s.low, &s.high))
		if (dp_arena_of_text(s.low) == k)
			goes(r, s);
	dp_let_all_run();
	dp_arena_goes(k);
}

/* Before what we keep goes nobody counts any more. */
static void kept_goes(struct dp_regs *r, struct span s)
{
	if (!dp_is_kept(s.low, s.high) && !dp_has_data(s.low, s.high))
		return;
	leaves(r);
	dp_let_all_run(); /* who is in a stub yet counts in his row */
}

static int is_at(const struct dp_known *k, struct span s)
{
	uint64_t lasting = (uint64_t)k->lasting;
	return (k->at < s.high && k->whole > s.low) || (lasting && lasting < s.high && lasting + (k->end - k->at) > s.low);
}

/* A program may know of addresses that nothing is at, as below an executable that is
 * not position-independent; what it asks for there it gets. Or it takes what it does
 * not know. */
static void ours_goes(struct dp_regs *r, struct span s, int must_be_free)
{
	if (!must_be_free) /* else there is nothing that the program does not know */
		kept_goes(r, s);
	for (uint32_t i = 0; i < dp_arenas_known(); i++) {
		struct dp_known *k = dp_arena_number(i);
		if (__atomic_load_n(&k->gone, __ATOMIC_ACQUIRE) || !is_at(k, s))
			continue;
		arena_goes(r, k);
		if (must_be_free)
			ask(SYS_munmap, k->at, k->whole - k->at);
	}
}

static void map_comes(struct dp_regs *r)
{
	struct span s = span(r->rdi, r->rsi);
	uint64_t flags = r->r10;
	struct dp_piece p;
	if (!(flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) || !has_text(s))
		return;
	ours_goes(r, s, (flags & MAP_FIXED_NOREPLACE) != 0);
	if (flags & MAP_FIXED_NOREPLACE)
		return;
	dp_text_is_back(s.low, s.high);
	if (flags & MAP_ANONYMOUS && r->rdx & PROT_WRITE)
		return; /* it will be filled */
	if (!(flags & MAP_ANONYMOUS) && dp_change_in(s.low, s.high, &p)) {
		uint8_t bytes[DP_MOST_CHANGED];
		long n = ask(SYS_pread64, (int32_t)r->r8, bytes, p.len, r->r9 + (p.at - s.low));
		if (n == (long)p.len && same_bytes(bytes, p.new, p.len))
			return;
	}
	goes(r, s);
}

const int *dp_linker_state HIDDEN;

/* Whether a library is closed, which lies there as a whole. */
static int is_closed(struct span s)
{
	const int *state = dp_linker_state;
	return state && __atomic_load_n(state, __ATOMIC_RELAXED) == RT_DELETE && dp_is_here(s.low, (const uint8_t *)ELFMAG, SELFMAG);
}

static void unmap_comes(struct dp_regs *r)
{
	struct span s = span(r->rdi, r->rsi);
	if (!has_text(s) || is_closed(s))
		return;
	ours_goes(r, s, 0);
	goes(r, s);
}

static void remap_comes(struct dp_regs *r)
{
	struct span from = span(r->rdi, r->rsi), to = span(r->r8, r->rdx);
	int fixed = (r->r10 & REMAP_FIXED) != 0;
	struct dp_piece p;
	if (fixed && has_text(to)) {
		ours_goes(r, to, 0);
		dp_text_is_back(to.low, to.high);
	}
	if (fixed && has_text(to) && (!dp_change_in(to.low, to.high, &p) || !dp_is_here(from.low + (p.at - to.low), p.new, p.len)))
		goes(r, to);
	if ((fixed || pages(r->rdx) != pages(r->rsi)) && has_text(from)) {
		ours_goes(r, from, 0);
		goes(r, from);
	}
}

static void change(struct dp_regs *r)
{
	switch ((uint32_t)r->rax) {
	case SYS_mmap:
		map_comes(r);
		break;
	case SYS_munmap:
		unmap_comes(r);
		break;
	case SYS_mremap:
		remap_comes(r);
		break;
	case SYS_madvise:
		advice_comes(r);
		break;
	}
}

/* Touched pages are noted at a fixed place, whatever is there. */
static int takes_shadow(const struct dp_regs *r)
{
	struct span s = span(r->rdi, r->rsi);
	switch ((uint32_t)r->rax) {
	case SYS_mmap:
		return r->r10 & MAP_FIXED && dp_heat_has(s.low, s.high);
	case SYS_munmap:
		return dp_heat_has(s.low, s.high);
	case SYS_mremap:
		if (dp_heat_has(s.low, s.high))
			return 1;
		s = span(r->r8, r->rdx);
		return r->r10 & REMAP_FIXED && dp_heat_has(s.low, s.high);
	}
	return 0;
}

void dp_memory_changes(struct dp_regs *r)
{
	if (takes_shadow(r))
		dp_stop();
	int remaps = (uint32_t)r->rax == SYS_mremap;
	if (!has_text(span(r->rdi, r->rsi)) && !(remaps && has_text(span(r->r8, r->rdx))))
		return;
	dp_reads();
	change(r);
	dp_has_read();
}
