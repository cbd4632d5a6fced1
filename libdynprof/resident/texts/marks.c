/* Room for the marks of functions. */
#include "base/pages.h"
#include "base/pieces.h"
#include "base/state.h"
#include "texts/marks.h"

/* For a bit of each function and another. When it grows the older, half as large, stays
 * where it is: somebody may be giving back. */
struct marks {
	uint64_t words; /* of both kinds */
	uint64_t bits[];
};

static struct marks *marks;

int dp_make_marks(void)
{
	uint64_t words = dp.table->functions.count / 64 + 1, had = marks ? marks->words : 0;
	if (words <= had)
		return 1;
	words = words < 2 * had ? 2 * had : words;
	uint64_t size = sizeof *marks + 2 * words * sizeof *marks->bits;
	struct marks *more = dp_zeros(size, 0);
	if (!more)
		return 0;
	more->words = words;
	__atomic_store_n(&marks, more, __ATOMIC_RELEASE);
	return 1;
}

void dp_take_marks(struct dp_change *c)
{
	struct marks *m = __atomic_load_n(&marks, __ATOMIC_ACQUIRE);
	uint64_t count = dp.table->functions.count; /* another process may have more than this knows */
	c->functions = count < 64 * m->words ? count : 64 * m->words;
	c->first = c->all ? 0 : c->functions;
	c->last = c->all && count ? c->functions - 1 : 0;
	c->marks = (uint8_t *)m->bits;
	c->hosts = (uint8_t *)(m->bits + m->words);
	for (uint64_t i = 0; i < 2 * m->words; i++)
		m->bits[i] = 0;
}

void dp_mark(struct dp_change *c, uint32_t group)
{
	c->marks[group / 8] |= (uint8_t)(1 << group % 8);
	c->marked++;
	c->first = group < c->first ? group : c->first;
	c->last = group > c->last ? group : c->last;
}
