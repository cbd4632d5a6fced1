/* See newtable.h. */
#include "base/pages.h"
#include "base/tablesize.h"
#include "table/newtable.h"

/* A section that starts on a page of its own, behind those that are there. */
static struct dp_section add(struct dp_header *h, uint64_t count, uint64_t capacity, uint64_t entry)
{
	struct dp_section s = {.offset = h->file_size, .count = (uint32_t)count, .capacity = (uint32_t)capacity, .entry_size = (uint32_t)entry};
	h->file_size = pages(h->file_size + capacity * entry);
	return s;
}

static uint64_t rows_at_most(uint64_t used, uint64_t counters_cap, uint64_t stride)
{
	uint64_t baselines = DP_MAX_BASELINES * (DP_BL_COUNTS + 8 * counters_cap + DP_PAGE_SIZE), taken = used + baselines;
	uint64_t rows = taken < DP_MAX_FILE_SIZE ? (DP_MAX_FILE_SIZE - taken) / (stride + 8 * DP_MAX_BASELINES) : 0;
	rows = rows < DP_MIN_ROWS ? DP_MIN_ROWS : rows;
	return rows < DP_MAX_ROWS ? rows : DP_MAX_ROWS;
}

int dp_lay_table(struct dp_header *h, const struct dp_new_table *n)
{
	uint64_t more = n->short_space ? DP_SPARE_FUNCTIONS_SHORT : DP_SPARE_FUNCTIONS, less = n->short_space ? DP_BLOCKS_SHORT : 1;
	uint64_t capacity = n->counters + more + (n->has_blocks ? DP_SPARE_BLOCK_COUNTERS / less : n->has_sites ? DP_SPARE_SITES / less : 0);
	uint64_t events = DP_SPARE_EVENTS + (n->has_threshold ? n->counters + DP_MORE_EVENTS : 0);
	uint64_t stride = pages(DP_ROW_COUNTERS + 8 * capacity);
	if (n->strings > DP_MAX_STRINGS || n->objects > DP_MAX_OBJECTS || stride > 1ull << 31)
		return 0;
	h->file_size = DP_HEADER_SIZE;
	h->counters = (uint32_t)n->counters;
	h->counters_cap = (uint32_t)capacity;
	h->rows_reserved = DP_ROWS_RESERVED;
	/* What the program stores into comes first: it maps no more than that. */
	h->missed = add(h, DP_MAX_MISSED, DP_MAX_MISSED, DP_MS_ENTRY_SIZE);
	h->formers = add(h, DP_MAX_FORMERS, DP_MAX_FORMERS, DP_FM_ENTRY_SIZE);
	h->events = add(h, events, events, DP_EV_ENTRY_SIZE);
	h->fired = add(h, n->counters, capacity, sizeof(uint32_t));
	h->objects = add(h, n->objects, DP_MAX_OBJECTS, DP_OBJ_ENTRY_SIZE);
	h->functions = add(h, n->functions, n->functions + more, DP_FN_ENTRY_SIZE);
	h->aliases = add(h, n->aliases, n->aliases + more, sizeof(uint32_t));
	h->strings = add(h, n->strings, n->strings + DP_SPARE_STRINGS, 1);
	if (n->has_blocks) {
		h->blocks = add(h, n->blocks, n->blocks + DP_SPARE_BLOCKS / less, DP_BK_ENTRY_SIZE);
		h->ways = add(h, n->ways, n->ways + DP_SPARE_WAYS / less, DP_WY_ENTRY_SIZE);
		h->loops = add(h, n->loops, n->loops + DP_SPARE_LOOPS / less, DP_LP_ENTRY_SIZE);
	}
	if (n->has_sites)
		h->sites = add(h, n->sites, n->sites + DP_SPARE_SITES / less, DP_ST_ENTRY_SIZE);
	uint64_t rows = rows_at_most(h->file_size, capacity, stride);
	uint64_t baseline = pages(DP_BL_COUNTS + 8 * capacity + 8 * rows);
	h->baselines = add(h, DP_MAX_BASELINES, DP_MAX_BASELINES, baseline);
	h->rows = add(h, rows, rows, stride);
	return 1;
}
