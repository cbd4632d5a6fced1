/* See flow.h. What comes to a block leaves it, so counts that have no counter follow from
 * the others (internal/spantree):
 *
 *  1. Each block is two nodes, with an edge in between, which is the block's own. A way is
 *     an edge from a node to another, or from or to outside.
 *  2. A node of which one edge is not known says what that is: what comes is what leaves.
 *     So does the node at that edge's other end, perhaps, and so on. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "api/flow.h"
#include "base/pages.h"
#include "base/state.h"
#include "rows/chunks.h"
#include "rows/loose.h"
#include "table/entries.h"
#include "table/view.h"

/* ---- where they are ------------------------------------------------------ */

static const void *entries(const struct dp_header *v, const struct dp_section *s) { return dp_in_table(v, s->offset); }

/* The first of n entries of which the number that of() says is at least the one wanted:
 * all are in that order. */
static uint32_t find(const struct dp_header *v, uint32_t n, uint64_t wanted, uint64_t (*of)(const struct dp_header *v, uint32_t i))
{
	uint32_t low = 0;
	while (low < n) {
		uint32_t middle = low + (n - low) / 2;
		if (of(v, middle) < wanted)
			low = middle + 1;
		else
			n = middle;
	}
	return low;
}

/* Others may write to the table: what is not there is of the last function. */
static uint64_t function_of_block(const struct dp_header *v, uint32_t i)
{
	return i < dp_in_use(&v->blocks) ? ((const struct dp_block *)entries(v, &v->blocks))[i].function : UINT64_MAX;
}

static uint64_t function_of_way(const struct dp_header *v, uint32_t i)
{
	const struct dp_way *w = (const struct dp_way *)entries(v, &v->ways) + i;
	return function_of_block(v, w->from != DP_NO_BLOCK ? w->from : w->to);
}

static uint64_t function_of_loop(const struct dp_header *v, uint32_t i)
{
	return function_of_block(v, ((const struct dp_loop *)entries(v, &v->loops))[i].header);
}

static void locate(const struct dp_header *v, uint64_t function, struct dp_flow *f)
{
	uint32_t blocks = dp_in_use(&v->blocks), ways = dp_in_use(&v->ways), loops = dp_in_use(&v->loops);
	f->first_block = find(v, blocks, function, function_of_block);
	f->blocks_count = find(v, blocks, function + 1, function_of_block) - f->first_block;
	f->first_loop = find(v, loops, function, function_of_loop);
	f->loops_count = find(v, loops, function + 1, function_of_loop) - f->first_loop;
	uint32_t first_way = find(v, ways, function, function_of_way);
	f->ways_count = find(v, ways, function + 1, function_of_way) - first_way;
	f->blocks = (const struct dp_block *)entries(v, &v->blocks) + f->first_block;
	f->ways = (const struct dp_way *)entries(v, &v->ways) + first_way;
	f->loops = (const struct dp_loop *)entries(v, &v->loops) + f->first_loop;
}

static int is_one(uint32_t n, uint32_t first, uint32_t count, uint32_t none) { return n == none || n - first < count; }

/* What they refer to is there. */
static int are_sound(const struct dp_flow *f)
{
	uint32_t first = f->first_block, n = f->blocks_count;
	int ok = 1;
	for (uint32_t i = 0; i < n; i++)
		ok &= is_one(f->blocks[i].after, first, n, DP_NO_BLOCK) && is_one(f->blocks[i].loop, f->first_loop, f->loops_count, DP_NO_LOOP);
	for (uint32_t i = 0; i < f->ways_count; i++)
		ok &= is_one(f->ways[i].from, first, n, DP_NO_BLOCK) && is_one(f->ways[i].to, first, n, DP_NO_BLOCK);
	for (uint32_t i = 0; i < f->loops_count; i++)
		ok &= f->loops[i].header - first < n && is_one(f->loops[i].parent, f->first_loop, i, DP_NO_LOOP);
	return ok;
}

/* ---- how often ----------------------------------------------------------- */

enum { OUTSIDE = -1 };

struct edge {
	int32_t from, to; /* nodes */
	uint32_t known;
};

struct node {
	int64_t sum;      /* what is known to come, less what is known to leave */
	uint32_t unknown; /* edges */
	uint32_t numbers; /* of those, by exclusive or: of a single one, which it is */
};

struct graph {
	struct edge *edges; /* of the blocks, then of the ways */
	struct node *nodes;
	int64_t *counts; /* by edge */
};

static void add(const struct graph *g, int32_t k, uint32_t e, int64_t sign)
{
	if (k == OUTSIDE)
		return;
	if (g->edges[e].known) {
		g->nodes[k].sum += sign * g->counts[e];
		return;
	}
	g->nodes[k].unknown++;
	g->nodes[k].numbers ^= e;
}

/* Works out the only unknown edge of a node, and goes on at its other end. */
static void settle(const struct graph *g, int32_t k)
{
	while (k != OUTSIDE && g->nodes[k].unknown == 1) {
		struct node *at = &g->nodes[k];
		uint32_t e = at->numbers;
		int leaves = g->edges[e].from == k;
		g->counts[e] = leaves ? at->sum : -at->sum;
		g->edges[e].known = 1;
		*at = (struct node){0};
		k = leaves ? g->edges[e].to : g->edges[e].from;
		if (k != OUTSIDE) {
			g->nodes[k].unknown--;
			g->nodes[k].numbers ^= e;
			g->nodes[k].sum += leaves ? g->counts[e] : -g->counts[e];
		}
	}
}

static int32_t node_of(const struct dp_flow *f, uint32_t block, int32_t end)
{
	return block == DP_NO_BLOCK ? OUTSIDE : 2 * (int32_t)(block - f->first_block) + end;
}

static void know(const struct graph *g, uint32_t e, uint32_t counter)
{
	g->edges[e].known = counter != DP_NO_COUNTER;
	if (g->edges[e].known)
		g->counts[e] = (int64_t)dp_calls_now(counter, dp_row_map);
}

static void solve(const struct dp_flow *f, const struct graph *g, uint32_t calls)
{
	uint32_t n = f->blocks_count, all = n + f->ways_count;
	for (uint32_t i = 0; i < n; i++) {
		g->edges[i] = (struct edge){2 * (int32_t)i, 2 * (int32_t)i + 1, 0};
		know(g, i, f->blocks[i].counter);
	}
	for (uint32_t i = 0; i < f->ways_count; i++) {
		const struct dp_way *w = &f->ways[i];
		g->edges[n + i] = (struct edge){node_of(f, w->from, 1), node_of(f, w->to, 0), 0};
		know(g, n + i, w->flags & DP_WAY_CALLS ? calls : w->counter);
	}
	for (uint32_t e = 0; e < all; e++) {
		add(g, g->edges[e].from, e, -1);
		add(g, g->edges[e].to, e, 1);
	}
	for (int32_t k = 0; k < 2 * (int32_t)n; k++)
		settle(g, k);
}

/* What stays behind a call at its old place runs with the block in front. Counts that are
 * not of one moment may seem negative. */
static void finish(const struct dp_flow *f, int64_t *counts)
{
	for (uint32_t i = 0; i < f->blocks_count + f->ways_count; i++)
		counts[i] = counts[i] > 0 ? counts[i] : 0;
	for (uint32_t i = 0; i < f->blocks_count; i++) {
		const struct dp_block *b = &f->blocks[i];
		if (b->after != DP_NO_BLOCK)
			counts[i] += counts[b->after - f->first_block];
		if (b->loop != DP_NO_LOOP)
			f->executed[b->loop - f->first_loop] += (uint64_t)counts[i] * b->instructions;
	}
	for (uint32_t i = f->loops_count; i-- > 0;) /* those in a loop come behind it */
		if (f->loops[i].parent != DP_NO_LOOP)
			f->executed[f->loops[i].parent - f->first_loop] += f->executed[i];
}

long dp_open_flow(const struct dp_header *v, uint32_t function, struct dp_flow *f)
{
	*f = (struct dp_flow){0};
	if (v->blocks.offset)
		locate(v, function, f);
	if (!f->blocks_count || !are_sound(f))
		return -ENODATA;
	uint64_t edges = (uint64_t)f->blocks_count + f->ways_count;
	f->size = pages(edges * (sizeof(struct edge) + sizeof(int64_t)) + 2ull * f->blocks_count * sizeof(struct node) + f->loops_count * sizeof(uint64_t));
	long at = raw(SYS_mmap, 0, f->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(at))
		return -ENOMEM;
	f->pages = (void *)at;
	f->executed = f->pages;
	struct graph g = {.counts = (int64_t *)(f->executed + f->loops_count)};
	g.nodes = (struct node *)(g.counts + edges);
	g.edges = (struct edge *)(g.nodes + 2ull * f->blocks_count);
	f->runs = g.counts;
	uint32_t calls = dp_function_at(v, function)->counter;
	if (f->ways_count)
		solve(f, &g, calls);
	else
		g.counts[0] = (int64_t)dp_calls_now(calls, dp_row_map);
	finish(f, g.counts);
	return 0;
}

void dp_close_flow(const struct dp_flow *f) { raw(SYS_munmap, f->pages, f->size); }

int64_t dp_loop_entries(const struct dp_flow *f, uint32_t loop)
{
	const struct dp_loop *l = &f->loops[loop];
	uint32_t header = l->header - f->first_block;
	if ((l->flags & DP_LOOP_UNTOLD) || f->blocks[header].after != DP_NO_BLOCK)
		return -1;
	int64_t entries = f->runs[header];
	for (uint32_t i = 0; i < f->ways_count; i++)
		if ((f->ways[i].flags & DP_WAY_BACK) && f->ways[i].to == l->header)
			entries -= f->runs[f->blocks_count + i];
	return entries > 0 ? entries : 0;
}
