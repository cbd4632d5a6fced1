/* See executions.h. */
#include "base/state.h"
#include "rows/rowlist.h"
#include "rows/rows.h"
#include "table/entries.h"
#include "table/executions.h"
#include "table/view.h"

void dp_forget_executions(struct dp_row *row)
{
	int is_used = row->state >> 2 != 0; /* others had it: where nobody wrote nothing shall be read, which takes room */
	const struct dp_header *v = is_used && (dp.table->flags & DP_FLAG_TRIPS) ? dp_view() : 0;
	if (!v || !v->loops.offset)
		return;
	const struct dp_loop *loops = dp_in_table(v, v->loops.offset);
	uint32_t n = dp_in_use(&v->loops), counters = dp_row_counters(row);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t word = loops[i].trips + DP_TR_STACK / 8;
		if (loops[i].trips && word < counters && row->counters[word])
			row->counters[word] = 0;
	}
}
