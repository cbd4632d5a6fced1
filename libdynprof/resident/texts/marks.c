/* Room for the marks of functions. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "base/lock.h"
#include "base/pages.h"
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
	long at = raw(SYS_mmap, 0, pages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(at))
		return 0;
	dp_own((uint64_t)at, size);
	((struct marks *)at)->words = words;
	__atomic_store_n(&marks, (struct marks *)at, __ATOMIC_RELEASE);
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
