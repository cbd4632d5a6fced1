/* A thread that ends gives its row back by itself, just before its last system
 * call: the next one has it at once, and nobody has to ask the kernel who is gone,
 * which a seccomp filter may forbid.
 *
 *  1. Is the row its own? A child of vfork runs on its parent's.
 *  2. All signals are blocked, as libc has it at this point, and the thread counts
 *     into the discard row: whatever comes, nothing of it comes into the row.
 *  3. The row is free, or added to the table if it is a loose one.
 * What cannot be done because a filter forbids it is left to the kernel: it knows
 * when the thread is gone (rows.c).
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <signal.h>

#include "base/filters.h"
#include "base/state.h"
#include "rows/chunks.h"
#include "rows/loose.h"
#include "rows/rows.h"
#include "sites/ends.h"
#include "sites/gs.h"
#include "sites/laststack.h"
#include "table/heat.h"

/* A bit for each that a thread is ending on. */
uint32_t dp_last_stacks_taken HIDDEN;
uint8_t dp_last_stacks[DP_LAST_STACKS][1 << DP_LAST_STACK_SHIFT] HIDDEN __attribute__((aligned(16)));

void dp_ends_forked(void) { dp_last_stacks_taken = 0; }

/* Processes that share our memory were made: dp.pid is not theirs. */
static uint32_t shared;

/* And threads that count in their parent's row. */
static uint32_t row_shared;

void dp_row_shared(void) { __atomic_store_n(&row_shared, 1, __ATOMIC_RELAXED); }

void dp_memory_shared(void) { __atomic_store_n(&shared, 1, __ATOMIC_RELAXED); }

static int is_own(const struct dp_row *row)
{
	if (!__atomic_load_n(&shared, __ATOMIC_RELAXED))
		return 1;
	/* In a pid namespace of its own a process has another number for itself than the
	 * one that its parent has noted in the row. */
	long pid = ask(SYS_getpid);
	return !failed(pid) && ((uint32_t)pid == dp.pid || (row != dp.discard && (uint32_t)pid == row->pid));
}

/* The row of this thread, if it counts in one and that is its own. */
static struct dp_row *ending_row(void)
{
	struct dp_row *row = dp.table && !dp.shared && !dp_stopped() ? dp_own_row() : 0;
	return row && is_own(row) ? row : 0;
}

/* Whether from here on this thread counts nowhere. */
static int leave_row(void)
{
	uint64_t all = DP_ALL_BUT_SIGSYS;
	if (ask(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, 8) != 0)
		return 0;
	if (!dp_have_wrgsbase)
		return ask(SYS_arch_prctl, ARCH_SET_GS, dp.discard) == 0;
	__asm__ volatile("wrgsbase %0" : : "r"(dp.discard));
	return 1;
}

int dp_thread_ends(void)
{
	struct dp_row *row = ending_row();
	if (!row || row == dp.discard || row->kind != DP_ROW_THREAD)
		return 0;
	if (__atomic_load_n(&row_shared, __ATOMIC_RELAXED) && ask(SYS_gettid) != row->tid)
		return 0;
	int left = leave_row();
	if (dp_is_loose((uint64_t)row))
		dp_loose_end(row);
	if (left)
		dp_row_end(row);
	return 1;
}

void dp_loose_rows_end(void)
{
	const struct dp_row *row = ending_row();
	if (row)
		dp_loose_end_all(row);
}

/* Where the kernel may be asked who is gone, the row stays: it tells a reader that
 * the process was there at the end. */
void dp_process_ends(void)
{
	struct dp_row *row = ending_row();
	dp_heat_end();
	if (!row)
		return;
	dp_loose_end_all(row);
	if (dp_filtered() && row != dp.discard && row->kind == DP_ROW_PROCESS && leave_row())
		dp_row_end(row);
}
