/* See switch.h. Each slot of a switch is one aligned quad, and one store changes it: a thread
 * that comes by runs the old instruction or the new one, and is in one of two copies that do
 * the same. So slots need not change at one moment, nor is anybody waited for: a copy counts
 * what comes to it and leaves it, at each call, too. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "base/filters.h"
#include "base/pages.h"
#include "base/state.h"
#include "base/stub.h"
#include "stubs/arenas.h"
#include "stubs/redirect.h"
#include "stubs/switch.h"

static uint8_t *aligned(uint8_t *at) { return (uint8_t *)(((uint64_t)at + DP_SWITCH_ALIGN - 1) & ~(uint64_t)(DP_SWITCH_ALIGN - 1)); }

static uint32_t word(const uint8_t *at) { return *(const uint32_t *)at; }

/* What a slot has, and how far behind it its jump leads. */
static uint64_t jump_by(uint32_t to) { return DP_OP_JMP | (uint64_t)to << 8 | 0xccccccULL << 40; }
static uint64_t pass_to(uint32_t to) { return DP_SWITCH_NOP | (uint64_t)to << 32; }
static uint32_t leads_away(uint64_t quad) { return (uint8_t)quad == DP_OP_JMP; }
static uint32_t to_of(uint64_t quad) { return (uint32_t)(quad >> (leads_away(quad) ? 8 : 32)); }
static int is_slot(uint64_t quad) { return quad == jump_by(to_of(quad)) || quad == pass_to(to_of(quad)); }

static uint64_t load(const uint8_t *slot) { return __atomic_load_n((const uint64_t *)slot, __ATOMIC_ACQUIRE); }

struct found {
	uint8_t *slot, *second, *list; /* the first slot, the copy that it may lead to, and where all are */
	uint32_t slots;
	uint32_t rare; /* the second is that with counters */
};

static int find(uint8_t *behind, const uint8_t *end, struct found *f)
{
	uint8_t *slot = aligned(behind);
	if (end - slot < DP_SWITCH_ALIGN + DP_SWITCH_HEAD || !is_slot(load(slot)))
		return 0;
	uint64_t far = (uint64_t)to_of(load(slot)) + DP_JMP_SIZE, room = (uint64_t)(end - slot);
	uint8_t *second = slot + far;
	if (far < DP_SWITCH_HEAD || far >= room || far % DP_SWITCH_ALIGN || word(second + DP_SWITCH_BACK) != far)
		return 0;
	uint32_t mark = word(second + DP_SWITCH_MARK);
	uint64_t list = far + word(second + DP_SWITCH_LIST), n = word(second + DP_SWITCH_COUNT);
	if ((mark != DP_SWITCH_MAGIC && mark != DP_SWITCH_RARE) || list > room || n * sizeof(uint32_t) > room - list)
		return 0;
	*f = (struct found){slot, second, slot + list, (uint32_t)n, mark == DP_SWITCH_RARE};
	return 1;
}

static void turn(const struct found *f, uint32_t on)
{
	uint32_t pass = !!on ^ f->rare;
	for (uint32_t i = 0; i < f->slots; i++) {
		uint64_t back = word(f->list + i * sizeof(uint32_t));
		if (back > (uint64_t)(f->second - f->slot) || back % DP_SWITCH_ALIGN)
			continue;
		uint64_t *slot = (uint64_t *)(f->second - back), now = load((uint8_t *)slot);
		if (is_slot(now) && leads_away(now) == pass)
			__atomic_store_n(slot, pass ? pass_to(to_of(now)) : jump_by(to_of(now)), __ATOMIC_RELEASE);
	}
}

int dp_turn(uint8_t *behind, const uint8_t *end, uint32_t on)
{
	struct found t;
	if (!find(behind, end, &t))
		return 0;
	turn(&t, on);
	return 1;
}

int dp_is_plain(const uint8_t *behind, const uint8_t *end)
{
	struct found t;
	return find((uint8_t *)behind, end, &t) && leads_away(load(t.slot)) != t.rare;
}

/* Turns it on by another mapping of its pages; again, if counting is paused or resumed
 * meanwhile: whoever does that has seen the function's fired word, or we see what it wants. */
static void turn_on(const struct found *f)
{
	uint64_t low = (uint64_t)f->slot & ~(uint64_t)(DP_PAGE_SIZE - 1), size = pages((uint64_t)f->list + f->slots * sizeof(uint32_t) - low);
	long view = ask(SYS_mremap, low, 0, size, MREMAP_MAYMOVE);
	if (failed(view))
		return;
	if (ask(SYS_mprotect, view, size, PROT_READ | PROT_WRITE) == 0) {
		int64_t far = view - (int64_t)low;
		struct found there = {f->slot + far, f->second + far, f->list + far, f->slots, f->rare};
		uint32_t jumps;
		do {
			jumps = dp_wants_jumps(dp.table);
			turn(&there, !jumps);
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
		} while (dp_wants_jumps(dp.table) != jumps);
	}
	ask(SYS_munmap, view, size);
}

void dp_turn_hot(uint64_t cold)
{
	struct found t;
	if (!(dp.table->flags & DP_FLAG_HOT))
		return;
	dp_reads();
	const struct dp_known *k = dp_arena_at(cold);
	if (k && cold >= k->cold) {
		uint64_t back = dp_jump_target(cold - (cold - k->cold) % DP_COLD_SIZE + DP_COLD_JUMP - DP_JMP_SIZE);
		const struct dp_origin *o = back - k->at < k->end - k->at ? dp_origin_at(k, back - k->at) : 0;
		if (o && find((uint8_t *)(k->at + o->at + dp_run_of(k, o).body), (const uint8_t *)k->cold, &t))
			turn_on(&t);
	}
	dp_has_read();
}
