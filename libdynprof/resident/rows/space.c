/* A program may limit its own address space (RLIMIT_AS), as servers do in children that work for
 * strangers. But rows are mapped in chunks, the next twice as large, in all processes of the tree, and
 * each has room for all that may be counted (chunks.c): of a server with a hundred children they are
 * 500 MB. A shadow takes 64 GB and more (table/heat.c). So
 *
 *  1. the kernel's limit is the program's and what of ours is mapped, together;
 *  2. the program is told its own. Which that is follows from the kernel's: forked children have both,
 *     and those of vfork limits of their own beside their parent's memory;
 *  3. before rows are mapped the limit is made larger, and smaller again by what was not needed;
 *  4. the hard limit, which not everybody may raise again, is larger by all rows that there may be;
 *  5. before a program is executed, which has none of ours, the limits are the program's own; the hard
 *     limit only where it may be raised again, as nothing may come to be executed. So they are where
 *     counting ends from outside (attach/attach.c).
 * Who has never set one has none. A limit from before the start is about ours, too, and stays so. Two
 * threads that do 1 and 3 at the same moment may leave one that is of before, by a chunk.
 */
#define _GNU_SOURCE
#include <sys/resource.h>

#include "base/filters.h"
#include "base/mapped.h"
#include "base/state.h"
#include "base/stub.h"
#include "rows/chunks.h"
#include "rows/space.h"

static int unlimited; /* at the start */
static int is_set;    /* by the program, or by who it was forked from */
static uint64_t shadow;

void dp_space_begin(void)
{
	struct rlimit is;
	unlimited = ask(SYS_prlimit64, 0, RLIMIT_AS, 0, &is) == 0 && is.rlim_cur == RLIM_INFINITY;
}

void dp_space_of_shadow(uint64_t bytes) { shadow = bytes; }

/* The discard row is one, too. */
static uint64_t soft_ours(void)
{
	uint64_t rows = 1;
	for (uint32_t k = 0; k < DP_CHUNKS; k++)
		if (__atomic_load_n(&dp.chunks[k], __ATOMIC_ACQUIRE))
			rows += dp_rows_of(k);
	return shadow + rows * dp.row_stride;
}

static uint64_t hard_ours(void) { return shadow + 2 * (dp.rows_max + 1ULL) * dp.row_stride; }

static rlim_t plus(rlim_t limit, uint64_t ours) { return limit < RLIM_INFINITY - ours ? limit + ours : RLIM_INFINITY; }

/* What somebody else has set may be less. */
static rlim_t minus(rlim_t limit, uint64_t ours) { return limit != RLIM_INFINITY && limit >= ours ? limit - ours : limit; }

/* ---- the program's own calls -------------------------------------------------- */

/* The call's arguments, by what they are. */
struct limit_call {
	int own; /* is of this process's address space */
	uint64_t *set, *get;
};

static struct limit_call arguments(struct dp_regs *r, uint64_t *none)
{
	if ((uint32_t)r->rax == SYS_setrlimit)
		return (struct limit_call){(uint32_t)r->rdi == RLIMIT_AS, &r->rsi, none};
	if ((uint32_t)r->rax == SYS_getrlimit)
		return (struct limit_call){(uint32_t)r->rdi == RLIMIT_AS, none, &r->rsi};
	if ((uint32_t)r->rsi != RLIMIT_AS)
		return (struct limit_call){0, none, none};
	return (struct limit_call){!(uint32_t)r->rdi || (long)(int32_t)r->rdi == ask(SYS_getpid), &r->rdx, &r->r10};
}

void dp_space_limited(struct dp_regs *r)
{
	uint64_t none = 0;
	struct limit_call call = arguments(r, &none);
	uint64_t set = *call.set;
	struct rlimit own = {RLIM_INFINITY, RLIM_INFINITY};
	if (!unlimited || !dp.table || !call.own || (!set && !is_set) || !dp_may((uint32_t)r->rax, r->rdi, r->rsi, r->rdx, r->r10))
		return;
	if (set && !dp_read_argument(&own, set, sizeof own, dp_program_stack(r)))
		return;
	uint64_t told = soft_ours();
	struct rlimit all = {plus(own.rlim_cur, told), plus(own.rlim_max, hard_ours())};
	if (own.rlim_cur > own.rlim_max)
		all = own; /* which the kernel says */
	if (set)
		*call.set = (uint64_t)&all;
	r->rax = (uint64_t)ask((uint32_t)r->rax, r->rdi, r->rsi, r->rdx, r->r10);
	*call.set = set;
	r->rcx += DP_THUNK_SYSCALL;
	struct rlimit *to = (struct rlimit *)*call.get;
	if (!r->rax && to && is_set) /* the kernel has just written to it */
		*to = (struct rlimit){minus(to->rlim_cur, told), minus(to->rlim_max, hard_ours())};
	if (!r->rax && set)
		is_set = 1;
}

/* ---- ours ---------------------------------------------------------------------- */

static int limit_is(struct rlimit *is) { return is_set && ask(SYS_prlimit64, 0, RLIMIT_AS, 0, is) == 0 && is->rlim_cur != RLIM_INFINITY; }

static int put(struct rlimit to) { return ask(SYS_prlimit64, 0, RLIMIT_AS, &to, 0) == 0; }

void dp_space_more(uint64_t bytes)
{
	struct rlimit is;
	if (!limit_is(&is))
		return;
	is.rlim_cur = plus(is.rlim_cur, bytes);
	if (is.rlim_cur <= is.rlim_max)
		put(is);
}

void dp_space_less(uint64_t bytes)
{
	struct rlimit is;
	if (bytes && limit_is(&is))
		put((struct rlimit){minus(is.rlim_cur, bytes), is.rlim_max});
}

/* ---- execve ---------------------------------------------------------------------- */

static int may_raise(struct rlimit is) { return put((struct rlimit){is.rlim_cur, plus(is.rlim_max, DP_PAGE_SIZE)}); }

uint64_t dp_space_as_meant(int for_good)
{
	struct rlimit is, own;
	if (!is_set || ask(SYS_prlimit64, 0, RLIMIT_AS, 0, &is) != 0)
		return 0;
	own = (struct rlimit){minus(is.rlim_cur, soft_ours()), minus(is.rlim_max, hard_ours())};
	if (!for_good && own.rlim_max != is.rlim_max && !may_raise(is))
		own.rlim_max = is.rlim_max;
	uint64_t which = (own.rlim_cur != is.rlim_cur ? DP_SPACE_SOFT : 0) | (own.rlim_max != is.rlim_max ? DP_SPACE_HARD : 0);
	return which && put(own) ? which : 0;
}

void dp_space_as_it_was(uint64_t which)
{
	struct rlimit is;
	if (!which || ask(SYS_prlimit64, 0, RLIMIT_AS, 0, &is) != 0)
		return;
	if (which & DP_SPACE_HARD)
		is.rlim_max = plus(is.rlim_max, hard_ours());
	if (which & DP_SPACE_SOFT)
		is.rlim_cur = plus(is.rlim_cur, soft_ours());
	put(is);
}
