/* The texts with changes of ours, in order of their addresses. Programs map memory,
 * and take it away, a million times a second; each time is asked whether that is
 * text. So there is one list for all sessions, in which a few loads find the place.
 *
 * Who changes it makes the turn odd before, and even behind. A reader who finds it
 * odd, or another than before, has looked at what was half done: he is told that
 * there may be text, and looks at the changes themselves. In a child that was forked
 * in between it stays odd until objects come or go.
 */
#include "base/kept.h"
#include "base/layout.h"
#include "base/pieces.h"
#include "texts/texts.h"

struct range {
	uint64_t low, high;
};

struct texts {
	uint64_t count, room;
	struct range ranges[];
};

static struct texts *texts; /* the older ones, half as large, stay where they are */
static uint32_t turn;
static int lost; /* there was no memory for one */

static inline int texts_in(uint64_t low, uint64_t high)
{
	uint32_t before = __atomic_load_n(&turn, __ATOMIC_ACQUIRE);
	const struct texts *t = __atomic_load_n(&texts, __ATOMIC_ACQUIRE);
	uint64_t first = 0, end = t ? t->count : 0, count = end;
	while (first < end) { /* the first that does not end in front */
		uint64_t middle = first + (end - first) / 2;
		if (t->ranges[middle].high <= low)
			first = middle + 1;
		else
			end = middle;
	}
	int found = first < count && t->ranges[first].low < high;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (dp_is_kept(low, high))
		return 1;
	return found || lost || before & 1 || __atomic_load_n(&turn, __ATOMIC_RELAXED) != before;
}

int dp_texts_in(uint64_t low, uint64_t high) { return texts_in(low, high); }

uint64_t dp_texts_far(uint64_t low, uint64_t size) { return !texts_in(low, low + size); }

int dp_texts_begin(void)
{
	int whole = !(turn & 1);
	__atomic_store_n(&turn, turn | 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return whole;
}

void dp_texts_end(void) { __atomic_store_n(&turn, turn + 1, __ATOMIC_RELEASE); }

void dp_texts_forget(void)
{
	if (texts)
		texts->count = 0;
}

static int make_room(void)
{
	uint64_t size = texts ? 2 * (sizeof *texts + texts->room * sizeof *texts->ranges) : DP_PAGE_SIZE;
	if (texts && texts->count < texts->room)
		return 1;
	struct texts *new = dp_zeros(size, 0);
	if (!new)
		return 0;
	new->room = (size - sizeof *new) / sizeof *new->ranges;
	for (uint64_t i = 0; texts && i < texts->count; i++)
		new->ranges[new->count++] = texts->ranges[i];
	__atomic_store_n(&texts, new, __ATOMIC_RELEASE);
	return 1;
}

/* What it overlaps was closed, and is one with it from now on. */
void dp_texts_add(uint64_t low, uint64_t high)
{
	if (!make_room()) {
		lost = 1;
		return;
	}
	struct range *r = texts->ranges;
	uint64_t first = 0, end, count = texts->count;
	while (first < count && r[first].high <= low)
		first++;
	for (end = first; end < count && r[end].low < high; end++) {
		low = r[end].low < low ? r[end].low : low;
		high = r[end].high > high ? r[end].high : high;
	}
	if (end == first)
		for (uint64_t i = count; i > first; i--)
			r[i] = r[i - 1];
	else
		for (uint64_t i = end; i < count; i++)
			r[i - end + first + 1] = r[i];
	r[first] = (struct range){low, high};
	texts->count = count + 1 - (end - first);
}
