/* dynprof.h: blocks and loops of functions. */
#define _GNU_SOURCE
#include <errno.h>

#define DYNPROF_LIBRARY
#include "../dynprof.h"
#include "api/flow.h"
#include "base/state.h"
#include "table/entries.h"
#include "table/view.h"

/* Returns 0, or what a function of dynprof.h returns that is given this function and
 * entries of this size, the least being known. */
static int64_t open_flow(int64_t function, uint32_t size, uint32_t least, struct dp_flow *f, const struct dp_header **view)
{
	*view = dp_view();
	if (dp_is_off())
		return DYNPROF_OFF;
	if (!*view)
		return -ENOMEM;
	if (size < least)
		return -EINVAL;
	if ((uint64_t)function >= dp_in_use(&(*view)->functions))
		return -ENOENT;
	return dp_open_flow(*view, (uint32_t)function, f);
}

int64_t dynprof_blocks(int64_t function, struct dynprof_block *list, uint32_t size, uint32_t room)
{
	struct dp_flow f;
	const struct dp_header *view;
	int64_t err = open_flow(function, size, sizeof *list, &f, &view);
	if (err)
		return err;
	uint64_t bias = dp_object_of(view, dp_function_at(view, (uint64_t)function))->bias;
	for (uint32_t i = 0; i < f.blocks_count && i < room; i++) {
		const struct dp_block *b = &f.blocks[i];
		struct dynprof_block *to = (struct dynprof_block *)((uint8_t *)list + (uint64_t)i * size);
		*to = (struct dynprof_block){
			.address = b->address + bias, .bytes = b->size, .instructions = b->instructions, .runs = (uint64_t)f.runs[i],
			.loop = b->loop == DP_NO_LOOP ? -1 : (int32_t)(b->loop - f.first_loop), .is_entry = b->flags & DP_BLOCK_ENTRY,
			.callee = b->flags & DP_BLOCK_NOTE ? -1 : (int64_t)b->callee - 1,
		};
	}
	dp_close_flow(&f);
	return f.blocks_count;
}

int64_t dynprof_loops(int64_t function, struct dynprof_loop *list, uint32_t size, uint32_t room)
{
	struct dp_flow f;
	const struct dp_header *view;
	int64_t err = open_flow(function, size, sizeof *list, &f, &view);
	if (err)
		return err;
	for (uint32_t i = 0; i < f.loops_count && i < room; i++) {
		const struct dp_loop *l = &f.loops[i];
		struct dynprof_loop *to = (struct dynprof_loop *)((uint8_t *)list + (uint64_t)i * size);
		*to = (struct dynprof_loop){
			.header = l->header - f.first_block, .parent = l->parent == DP_NO_LOOP ? -1 : (int32_t)(l->parent - f.first_loop),
			.iterations = (uint64_t)f.runs[l->header - f.first_block], .entries = dp_loop_entries(&f, i), .instructions = f.executed[i],
		};
	}
	dp_close_flow(&f);
	return f.loops_count;
}
