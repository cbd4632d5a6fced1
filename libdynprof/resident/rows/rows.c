/* Rows: who has which.
 *
 * Everything here may run in a signal handler, in any thread, and between a
 * fork's parent and child, so there is no lock:
 *  1. A row's state word is generation << 2 | state. Taking a row makes a new
 *     generation, so that a compare-and-swap with an old word fails.
 *  2. A row is free when the kernel says that its thread is gone: no
 *     instruction of that thread can follow, so nobody else counts there. Any
 *     process of the fork tree may find that out and put the row on the stack of
 *     free ones, which all share: else rows that a child took would be lost when
 *     it ends.
 *  3. The kernel is asked by number, and numbers differ from pid namespace to
 *     pid namespace. So a row says in which its number is valid (pid space), and
 *     only who lives there asks. A forked process shares its parent's if it sees
 *     its parent by the number that this has for itself; else, or if its parent
 *     is gone already, /proc knows its namespace.
 *  4. Counts stay; the next thread counts on top. Totals are sums over rows.
 *     What the last thread had is noted before the next one has the row.
 *  5. The stock is rows that are mapped and have room, for processes that may
 *     not get either any more: a seccomp filter is in force. It is shared by the
 *     fork tree, as the children of such a process cannot stock rows. When it is
 *     used up, there are loose rows (loose.c). Every system call here is asked for
 *     first (filters.h).
 *  6. A thread that ends gives its row back (ends.c). It may do so before its parent
 *     has noted that it was made: then the parent does.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/filters.h"
#include "base/state.h"
#include "rows/birth.h"
#include "rows/chunks.h"
#include "rows/former.h"
#include "rows/loose.h"
#include "rows/rowlist.h"
#include "rows/rows.h"

#define ESRCH_ (-3L)

static uint32_t load32(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static void store32(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }

static uint32_t next_word(uint32_t word, uint32_t state)
{
	return ((word | DP_ROW_STATE_MASK) + 1) | state; /* a new generation */
}

static struct dp_row *pop_free(void)
{
	struct dp_row *row = dp_pop_free();
	if (!row)
		return 0;
	if (!dp_grow_row(row)) {
		dp_push_free(row);
		return 0;
	}
	store32(&row->state, next_word(row->state, DP_ROW_BIRTHING));
	return row;
}

/* Whether the thread or process on the row is gone, by the kernel's word. A
 * number that has been given to somebody else only delays the answer. */
static int gone(struct dp_row *row)
{
	uint32_t tid = load32(&row->tid);
	if (tid == 0)
		return 0;
	if (row->kind == DP_ROW_THREAD)
		return ask(SYS_tgkill, row->pid, tid, 0) == ESRCH_;
	return ask(SYS_kill, tid, 0) == ESRCH_;
}

/* The pid space that this thread lives in; 0 if that is not known. */
static uint32_t pid_space(void)
{
	uint32_t space;
	__asm__ volatile("movl %%gs:%c1, %0" : "=r"(space) : "i"(DP_ROW_LIVES_IN));
	return space;
}

/* Frees the rows whose threads are gone. What is read of a row before its state
 * is changed may be another thread's: then the change fails. */
static void scan(void)
{
	uint32_t here = pid_space();
	store32(&dp.table->rows_taken, 0);
	struct dp_walk w = {dp_row_map, 0, 0};
	for (struct dp_row *row; here && (row = dp_walk(&w));) {
		uint32_t word = load32(&row->state);
		uint32_t free_word = (word & ~(uint32_t)DP_ROW_STATE_MASK) | DP_ROW_FREE;
		if ((word & DP_ROW_STATE_MASK) == DP_ROW_LIVE && row->pid_space == here && gone(row) &&
		    __atomic_compare_exchange_n(&row->state, &word, free_word, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			dp_push_free(row);
	}
}

/* Whether fresh rows can be had: no number shall be spent in vain. */
static int may_grow(void)
{
	uint64_t page = (uint64_t)dp.chunks[0];
	return !dp_filtered() || (dp_may(SYS_mremap, page, 0, DP_PAGE_SIZE, MREMAP_MAYMOVE) &&
				  dp_may(SYS_munmap, page, DP_PAGE_SIZE, 0, 0) &&
				  dp_may(SYS_madvise, page, DP_PAGE_SIZE, MADV_POPULATE_WRITE, 0));
}

static uint64_t *stock(void) { return &dp.table->stock_head; }
static uint32_t *stocked(void) { return &dp.table->stock_rows; }

static struct dp_row *take_new(void)
{
	struct dp_row *row = may_grow() ? dp_row_fresh() : 0;
	if (!row && (row = dp_pop(stock())) != 0) {
		__atomic_fetch_sub(stocked(), 1, __ATOMIC_RELAXED);
		if (!dp_grow_row(row)) /* stocked by who had fewer counters */
			row = 0;
	}
	if (row)
		store32(&row->state, DP_ROW_BIRTHING);
	return row;
}

enum { STOCK_ROWS = 128, STOCK_BYTES = 8 << 20, STOCK_LEAST = 16 };

/* How many rows shall be in stock: each costs its counters in use of room, and
 * its stride of address space. */
static uint32_t enough(void)
{
	uint64_t rows = STOCK_BYTES / dp.row_used;
	struct rlimit space = {0, 0};
	if (rows < STOCK_LEAST || ask(SYS_prlimit64, 0, RLIMIT_AS, 0, &space) != 0 || space.rlim_cur != RLIM_INFINITY)
		return STOCK_LEAST;
	return rows < STOCK_ROWS ? (uint32_t)rows : STOCK_ROWS;
}

/* Fills the stock while that is allowed, and maps what others have put there if
 * address space is not short. */
void dp_rows_stock(void)
{
	if (!may_grow())
		return;
	scan();
	dp_collector_make();
	uint32_t most = enough(), used;
	for (uint32_t rows = load32(stocked()); rows < most; rows++) {
		struct dp_row *row = dp_row_fresh();
		if (!row)
			break;
		dp_push(stock(), row);
		__atomic_fetch_add(stocked(), 1, __ATOMIC_RELAXED);
	}
	used = load32(&dp.table->rows_used);
	for (uint32_t k = 1; most > STOCK_LEAST && k < DP_CHUNKS && dp_first_of(k) < used; k++)
		if (!__atomic_load_n(&dp.chunks[k], __ATOMIC_ACQUIRE))
			dp_map_chunk(k);
}

enum { TAKEN_BEFORE_SCAN = 8 };

/* Takes a row for a thread or process (DP_ROW_THREAD, DP_ROW_PROCESS) that is
 * about to be made; 0 if there is no room. Looking for dead threads costs up to a
 * system call a row, so it is done once for every half as many that are taken,
 * and not for the first few. */
struct dp_row *dp_row_take(uint32_t kind)
{
	struct dp_row *row = pop_free();
	uint32_t taken = __atomic_add_fetch(&dp.table->rows_taken, 1, __ATOMIC_RELAXED);
	if (!row && taken > TAKEN_BEFORE_SCAN + load32(&dp.table->rows_used) / 2) {
		scan();
		row = pop_free();
	}
	if (row)
		dp_note_former(row);
	else
		row = take_new();
	if (!row)
		row = dp_loose_take(kind);
	if (!row) {
		__atomic_fetch_add(&dp.table->threads_discarded, 1, __ATOMIC_RELAXED);
		return 0;
	}
	row->kind = kind;
	row->owner = dp.incarnation;
	row->pid = 0;
	row->tid = row->incarnation = 0;
	row->pid_space = pid_space();
	row->lives_in = kind == DP_ROW_THREAD ? pid_space() : 0; /* a process finds out itself */
	return row;
}

static void give_back(struct dp_row *row)
{
	if (row->index == DP_NO_ROW)
		dp_loose_drop(row);
	else
		dp_push_free(row);
}

static uint64_t *flags_of(struct dp_row *row) { return &dp_birth_of(row)->flags; }

/* The row's thread has ended, and its parent has noted its number: who sees both
 * last, the thread or the parent, gives the row back. live is its word then. */
static void release_ended(struct dp_row *row, uint32_t live)
{
	uint32_t free_word = (live & ~(uint32_t)DP_ROW_STATE_MASK) | DP_ROW_FREE;
	if (__atomic_load_n(flags_of(row), __ATOMIC_SEQ_CST) == DP_BIRTH_ENDED &&
	    __atomic_compare_exchange_n(&row->state, &live, free_word, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
		give_back(row);
}

/* The thread was made and has that number, or was not made after all. It may run, and
 * have ended. */
void dp_row_made(struct dp_row *row, long tid)
{
	uint32_t *state = &row->state;
	uint32_t word = *state & ~(uint32_t)DP_ROW_STATE_MASK;
	if (failed(tid)) {
		store32(state, word | DP_ROW_FREE);
		if (row->index == DP_NO_ROW)
			dp_loose_end(row); /* nobody counts there */
		give_back(row);
		return;
	}
	row->pid = row->kind == DP_ROW_THREAD ? dp.pid : (uint32_t)tid;
	store32(&row->tid, (uint32_t)tid);
	__atomic_store_n(state, word | DP_ROW_LIVE, __ATOMIC_SEQ_CST);
	release_ended(row, word | DP_ROW_LIVE);
}

void dp_row_end(struct dp_row *row)
{
	__atomic_store_n(flags_of(row), DP_BIRTH_ENDED, __ATOMIC_SEQ_CST);
	uint32_t word = __atomic_load_n(&row->state, __ATOMIC_SEQ_CST);
	if ((word & DP_ROW_STATE_MASK) == DP_ROW_LIVE)
		release_ended(row, word);
}

/* Inodes of namespaces are beyond all incarnation numbers. */
static uint32_t new_space(void)
{
	struct stat st;
	return ask(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/pid", &st, 0) == 0 ? (uint32_t)st.st_ino : dp.incarnation;
}

/* This process starts with a row, in a pid space; 0: it has to be found out. */
static void begin(struct dp_row *row, uint32_t space)
{
	dp.incarnation = __atomic_add_fetch(&dp.table->processes, 1, __ATOMIC_ACQ_REL);
	dp_alone();
	long pid = ask(SYS_getpid);
	dp.pid = failed(pid) ? 0 : (uint32_t)pid;
	row->lives_in = dp.discard->lives_in = space ? space : new_space();
	row->incarnation = dp.incarnation;
	dp_loose_forked(row);
}

/* The first process's row, which has room. That it is written to first saves the fault
 * of a read. */
void dp_rows_start(struct dp_row *row)
{
	row->kind = DP_ROW_PROCESS;
	begin(row, (uint32_t)dp.table->pid_ns);
	row->owner = dp.incarnation;
	row->pid = row->tid = dp.pid;
	row->pid_space = row->lives_in;
	row->room = (uint32_t)dp.row_used;
	row->state = DP_ROW_LIVE;
	if (dp.table->rows_used == 0) /* else it has counts of an earlier table */
		dp.table->rows_used = 1;
	dp.discard->index = DP_NO_ROW;
	dp.discard->self = (uint64_t)dp.discard;
	dp_list_row(row);
}

/* This process starts with this row. */
void dp_rows_begin(struct dp_row *row)
{
	uint32_t parent = dp.pid, space = row->pid_space;
	begin(row, row != dp.discard && parent && ask(SYS_getppid) == parent ? space : 0);
}
