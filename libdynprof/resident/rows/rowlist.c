/* The lists that rows are on, in the table: those that have room, the free ones,
 * the stock. May run wherever rows.c does. */
#include "base/state.h"
#include "rows/chunks.h"
#include "rows/rowlist.h"
#include "rows/rows.h"

static uint32_t load32(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static void store32(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }

/* A stack of rows: the free ones, the stock. The tag in the upper half changes
 * at every push and pop, so that a head seen twice is the same head. */
void dp_push(uint64_t *stack, struct dp_row *row)
{
	uint64_t head = __atomic_load_n(stack, __ATOMIC_ACQUIRE), next;
	do {
		store32(&row->next_free, (uint32_t)head);
		next = ((head >> 32) + 1) << 32 | (row->index + 1);
	} while (!__atomic_compare_exchange_n(stack, &head, next, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
}

/* 0 if there is none, or it cannot be mapped in this process. */
struct dp_row *dp_pop(uint64_t *stack)
{
	uint64_t head = __atomic_load_n(stack, __ATOMIC_ACQUIRE), next;
	struct dp_row *row;
	do {
		row = (uint32_t)head && (uint32_t)head <= dp.rows_max ? dp_row_map((uint32_t)head - 1) : 0;
		if (!row)
			return 0;
		next = ((head >> 32) + 1) << 32 | load32(&row->next_free);
	} while (!__atomic_compare_exchange_n(stack, &head, next, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	return row;
}

/* Rows are listed by chunks, those that have room and the free ones among them:
 * where another chunk cannot be mapped any more, those that are will do. */
static uint64_t *free_rows(uint32_t chunk) { return &dp.table->free_rows[chunk]; }
static uint32_t *listed(uint32_t chunk) { return &dp.table->row_lists[chunk]; }

void dp_push_free(struct dp_row *row) { dp_push(free_rows(dp_chunk_of(row->index)), row); }

struct dp_row *dp_pop_free(void)
{
	struct dp_row *row = 0;
	for (uint32_t k = 0; !row && k < DP_CHUNKS; k++)
		if ((uint32_t)__atomic_load_n(free_rows(k), __ATOMIC_ACQUIRE))
			row = dp_pop(free_rows(k));
	return row;
}

/* The row has room: whoever looks for free ones may read it. */
void dp_list_row(struct dp_row *row)
{
	uint32_t *head = listed(dp_chunk_of(row->index)), first = load32(head);
	do
		store32(&row->next, first);
	while (!__atomic_compare_exchange_n(head, &first, row->index + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
}

struct dp_row *dp_walk(struct dp_walk *w)
{
	for (;;) {
		while (!w->link) {
			if (w->chunk == DP_CHUNKS)
				return 0;
			w->link = load32(listed(w->chunk++));
		}
		struct dp_row *row = w->link <= dp.rows_max ? w->at(w->link - 1) : 0;
		w->link = row ? load32(&row->next) : 0;
		if (row)
			return row;
	}
}

/* Makes room in a row for this process's counters: one that has loaded more
 * objects needs more than the row had. The page in which its room ends has all. */
int dp_grow_row(struct dp_row *row)
{
	uint32_t want = (uint32_t)__atomic_load_n(&dp.row_used, __ATOMIC_SEQ_CST), has = load32(&row->room);
	uint32_t from = (has + DP_PAGE_SIZE - 1) & ~(uint32_t)(DP_PAGE_SIZE - 1);
	if (from < want && !dp_make_room((uint8_t *)row + from, want - from))
		return 0;
	while (has < want && !__atomic_compare_exchange_n(&row->room, &has, want, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
	return 1;
}

/* Gives this process more counters, and their room to its threads. One that is
 * born meanwhile is on the list by now, or grows its row itself: it looks at the
 * number after it is on the list. */
int dp_rows_grow(uint32_t counters)
{
	dp.counters = counters;
	__atomic_store_n(&dp.row_used, DP_ROW_COUNTERS + 8 * (uint64_t)counters, __ATOMIC_SEQ_CST);
	struct dp_walk w = {dp_row_at, 0, 0};
	for (struct dp_row *row; (row = dp_walk(&w));)
		if (!dp_grow_row(row))
			return 0;
	return 1;
}

uint32_t dp_row_counters(const struct dp_row *row) { return (load32(&row->room) - DP_ROW_COUNTERS) / 8; }

uint64_t dp_rows_total(uint32_t counter, dp_row_finder *at)
{
	struct dp_walk w = {at, 0, 0};
	uint64_t sum = 0;
	for (struct dp_row *row; (row = dp_walk(&w));)
		if (counter < dp_row_counters(row))
			sum += __atomic_load_n(&row->counters[counter], __ATOMIC_RELAXED) & ~DP_COUNTER_FIRED;
	return sum;
}

struct dp_row *dp_row_fresh(void)
{
	uint32_t *used = &dp.table->rows_used;
	if (load32(used) >= dp.rows_max)
		return 0;
	uint32_t index = __atomic_fetch_add(used, 1, __ATOMIC_ACQ_REL);
	if (index >= dp.rows_max) {
		__atomic_fetch_sub(used, 1, __ATOMIC_ACQ_REL);
		return 0;
	}
	struct dp_row *row = dp_row_map(index);
	uint64_t room = dp.row_used;
	/* A row whose room cannot be had stays unused: its number is spent. */
	if (!row || (index >= dp.table->rows_reserved && !dp_make_room(row, room)))
		return 0;
	row->index = index;
	row->room = (uint32_t)room;
	dp_list_row(row);
	return dp_grow_row(row) ? row : 0; /* dp_rows_grow may have been past before */
}
