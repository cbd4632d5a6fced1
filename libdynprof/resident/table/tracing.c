/* See tracing.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/prctl.h>
#include <time.h>

#include "base/clock.h"
#include "base/filters.h"
#include "base/pair.h"
#include "base/sandbox.h"
#include "rows/chunks.h"
#include "table/regions.h"
#include "table/tracing.h"

/* ---- threads -------------------------------------------------------------- */

/* Of which accesses are not recorded: by the number of its row, how often that had been taken by
 * then, + 1. So who has it later is another. */
enum { ROWS = 4096 };
static uint32_t quiet[ROWS];

static uint32_t *own(uint32_t *key)
{
	const struct dp_row *row = dp.shared ? 0 : dp_own_row();
	uint32_t index = row && row != dp.discard ? __atomic_load_n(&row->index, __ATOMIC_RELAXED) : DP_NO_ROW;
	if (index >= ROWS)
		return 0;
	*key = (__atomic_load_n(&row->state, __ATOMIC_RELAXED) >> 2) + 1;
	return &quiet[index];
}

static int thread_is_off(void)
{
	uint32_t key = 0;
	const uint32_t *at = own(&key);
	return at && __atomic_load_n(at, __ATOMIC_RELAXED) == key;
}

long dp_trace_thread(int on)
{
	uint32_t key;
	uint32_t *at = own(&key);
	if (dp.shared)
		return -EOPNOTSUPP;
	if (!at)
		return on ? 0 : -ENOSPC;
	__atomic_store_n(at, on ? 0 : key, __ATOMIC_RELAXED);
	if (!on)
		__atomic_fetch_or(dp_region_word(DP_RG_OFF), DP_OFF_THREAD, __ATOMIC_SEQ_CST);
	return 0;
}

/* ---- all ------------------------------------------------------------------ */

uint64_t dp_trace_why(uint64_t off, uint64_t kinds)
{
	uint64_t why = off & ~(uint64_t)(DP_OFF_KINDS | DP_OFF_THREAD | DP_OFF_TURNS | DP_OFF_TIMES);
	if (kinds && !(kinds & ~off & DP_OFF_KINDS))
		why |= DP_OFF_PROGRAM;
	if (off & DP_OFF_THREAD && thread_is_off())
		why |= DP_OFF_THREAD;
	return why;
}

void dp_trace_switch(int on, uint64_t kinds)
{
	uint64_t *word = dp_region_word(DP_RG_OFF), was = dp_region_get(DP_RG_OFF), off;
	do {
		off = was | DP_OFF_PROGRAM | DP_OFF_TURNS;
		if (on) /* first, so that what is recorded next is of the next window */
			off = (was & ~(uint64_t)(DP_OFF_PROGRAM | DP_OFF_KINDS)) | (kinds ? DP_OFF_KINDS & ~kinds : 0);
		if (on && was & DP_OFF_PROGRAM)
			__atomic_fetch_add(dp_region_word(DP_RG_TURNS), 1, __ATOMIC_SEQ_CST);
	} while (!__atomic_compare_exchange_n(word, &was, off, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}

/* ---- names ---------------------------------------------------------------- */

struct name {
	uint64_t sum, done;
	char text[DP_NAME_SIZE - DP_NAME_TEXT];
};

_Static_assert(sizeof(struct name) == DP_NAME_SIZE && offsetof(struct name, done) == DP_NAME_DONE && offsetof(struct name, text) == DP_NAME_TEXT, "name");

static uint64_t sum_of(const char *text)
{
	uint64_t sum = 0xcbf29ce484222325;
	for (; *text; text++)
		sum = (sum ^ (uint8_t)*text) * 0x100000001b3;
	return sum ? sum : 1;
}

/* Whoever finds that the text of a name is not there yet writes it: who has begun may be gone, or
 * be interrupted by this. It is the same. */
uint64_t dp_trace_name(const char *text)
{
	uint64_t sum = sum_of(text);
	for (uint64_t n = 0, i = sum % DP_RG_NAME_MAX; n < DP_RG_NAME_MAX; n++, i = (i + 1) % DP_RG_NAME_MAX) {
		struct name *at = (struct name *)(dp_region_area + DP_RG_NAMES) + i;
		uint64_t is = __atomic_load_n(&at->sum, __ATOMIC_ACQUIRE);
		if (!is && __atomic_compare_exchange_n(&at->sum, &is, sum, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			is = sum;
		if (is != sum)
			continue;
		if (!__atomic_load_n(&at->done, __ATOMIC_ACQUIRE)) {
			text_copy(at->text, sizeof at->text, text);
			__atomic_store_n(&at->done, 1, __ATOMIC_RELEASE);
		}
		if (same_text(at->text, text))
			return i;
	}
	return DP_RG_NAME_MAX;
}

/* ---- times ---------------------------------------------------------------- */

static uint64_t rdtsc(void)
{
	uint32_t low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

uint64_t dp_trace_tsc(void) { return dp_no_tsc ? 0 : rdtsc(); }

struct pair {
	uint64_t tsc, ns;
};

/* Both at the same moment, as far as nobody has come in between. */
static int same_moment(struct pair *p)
{
	enum { TRIES = 8, NEAR = 1 << 14 };
	for (int i = 0; i < TRIES; i++) {
		uint64_t before = rdtsc();
		p->ns = dp_now(CLOCK_MONOTONIC);
		uint64_t took = rdtsc() - before;
		p->tsc = before + took / 2;
		if (p->ns && took < NEAR)
			return 1;
	}
	return 0;
}

void dp_trace_begin(void)
{
	int mode = 0;
	struct pair p;
	if (!(dp_region_get(DP_RG_OFF) & DP_OFF_TIMES))
		return;
	if (!dp_sandboxed() && raw(SYS_prctl, PR_GET_TSC, &mode) == 0 && mode == PR_TSC_ENABLE && same_moment(&p))
		dp_exchange_pair(dp_region_word(DP_RG_FROM), 0, 0, p.tsc, p.ns);
	else
		__atomic_fetch_and(dp_region_word(DP_RG_OFF), ~(uint64_t)DP_OFF_TIMES, __ATOMIC_SEQ_CST);
}

/* Each time that twice as long has gone by: so what is told of all is as exact as its second half, and
 * few system calls are made. */
void dp_trace_pair(uint64_t tsc)
{
	const uint64_t from = dp_region_get(DP_RG_FROM), until = dp_region_get(DP_RG_UNTIL), ns = dp_region_get(DP_RG_UNTIL + 8);
	struct pair p;
	if ((until && tsc - from < 2 * (until - from)) || !same_moment(&p))
		return;
	dp_exchange_pair(dp_region_word(DP_RG_UNTIL), until, ns, p.tsc, p.ns);
}
