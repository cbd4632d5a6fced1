/* What text was before we patched it, for translators, who want the program's
 * code. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "base/ctl.h"
#include "base/pages.h"
#include "base/state.h"
#include "texts/original.h"

struct old {
	uint64_t at;
	uint8_t bytes[8];
	uint32_t len;
};

/* Of one session each, in order of at; the list only grows. */
struct list {
	struct list *next;
	uint64_t count;
	struct old old[];
};

static struct list *lists;

static void swap(struct old *a, struct old *b)
{
	struct old t = *a;
	*a = *b;
	*b = t;
}

/* Of the heap below n, whose largest is on top, from i on. */
static void sift(struct old *o, uint64_t i, uint64_t n)
{
	for (uint64_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && o[child + 1].at > o[child].at)
			child++;
		if (o[i].at >= o[child].at)
			return;
		swap(&o[i], &o[child]);
	}
}

static void sort(struct old *o, uint64_t n)
{
	for (uint64_t i = n / 2; i-- > 0;)
		sift(o, i, n);
	while (n-- > 1) {
		swap(&o[0], &o[n]);
		sift(o, 0, n);
	}
}

void dp_keep_patches(const struct dp_ctl *ctl)
{
	uint64_t n = 0;
	for (uint32_t i = 0; i < ctl->texts_count; i++)
		n += ctl->texts[i].patches;
	if (!dp.translator || n == 0)
		return;
	long at = raw(SYS_mmap, 0, pages(sizeof(struct list) + n * sizeof(struct old)), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(at))
		return;
	struct list *l = (struct list *)at;
	const struct dp_patch *p = (const struct dp_patch *)ctl->patches;
	for (uint64_t i = 0; i < n; i++) {
		l->old[i].at = p[i].at;
		l->old[i].len = p[i].len;
		for (unsigned k = 0; k < sizeof l->old[i].bytes; k++)
			l->old[i].bytes[k] = p[i].old[k];
	}
	sort(l->old, n);
	l->count = n;
	l->next = lists;
	__atomic_store_n(&lists, l, __ATOMIC_RELEASE);
}

/* The first that may reach to at. */
static uint64_t first_at(const struct list *l, uint64_t at)
{
	uint64_t low = 0, high = l->count;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (l->old[middle].at + sizeof l->old[middle].bytes <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A patch that was not made changes nothing here: its old bytes are there. */
void dp_undo_in(uint8_t *copy, uint64_t at, uint64_t size)
{
	for (const struct list *l = __atomic_load_n(&lists, __ATOMIC_ACQUIRE); l; l = l->next)
		for (uint64_t i = first_at(l, at); i < l->count && l->old[i].at < at + size; i++)
			for (uint32_t k = 0; k < l->old[i].len; k++)
				if (l->old[i].at + k - at < size)
					copy[l->old[i].at + k - at] = l->old[i].bytes[k];
}
