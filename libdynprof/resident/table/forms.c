/* See forms.h. What is accessed is worked out of registers alone; no memory of the program's is
 * read, so that none can fault here. Where a count is wild, as one of an instruction that will
 * fault, what is noted ends somewhere in the first megabyte that is not mapped. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "base/cpu.h"
#include "base/filters.h"
#include "base/layout.h"
#include "base/state.h"
#include "base/stub.h"
#include "table/forms.h"
#include "table/heat.h"
#include "table/regions.h"

struct dp_form {
	int64_t disp;
	uint16_t size;
	uint8_t base, index, scale, segment, flags, way, mask, element, kind, more;
	uint32_t by; /* number of the instruction, where that is told */
};

_Static_assert(sizeof(struct dp_form) == DP_FORM_BYTES && offsetof(struct dp_form, size) == DP_FORM_SIZE && offsetof(struct dp_form, way) == DP_FORM_WAY && offsetof(struct dp_form, more) == DP_FORM_MORE && offsetof(struct dp_form, by) == DP_FORM_BY, "form");

enum { NOTED = 0xff, RIP = 16, NONE = 0xff, FS = 1, LOAD = 1, STORE = 2, DOWN = 0x400 };

struct access {
	const struct dp_form_registers *r;
	const uint64_t *rsp;
	uint64_t home, what;
};

static uint64_t general(const struct access *a, uint8_t n)
{
	const struct dp_form_registers *r = a->r;
	switch (n) {
	case 0: return a->what & DP_FORMS_FLAGS ? a->rsp[-DP_RED_ZONE / 8 - 2] : r->rax;
	case 1: return a->rsp[-DP_RED_ZONE / 8 - 1];
	case 2: return r->rdx;
	case 3: return r->rbx;
	case 4: return (uint64_t)a->rsp;
	case 5: return r->rbp;
	case 6: return r->rsi;
	case 7: return r->rdi;
	case 8: return r->r8;
	case 9: return r->r9;
	case 10: return r->r10;
	case 11: return r->r11;
	case 12: return r->r12;
	case 13: return r->r13;
	case 14: return r->r14;
	case 15: return r->r15;
	}
	return 0;
}

static uint64_t base_of(const struct dp_form *f)
{
	uint64_t base = 0;
	if (f->segment == FS)
		__asm__ volatile("rdfsbase %0" : "=r"(base));
	else if (f->segment)
		__asm__ volatile("rdgsbase %0" : "=r"(base));
	return base;
}

/* The address, with so much more, which 32 bits count of, too, if so. */
static uint64_t address(const struct access *a, const struct dp_form *f, uint64_t more)
{
	uint64_t at = (uint64_t)f->disp + more;
	if (f->base == RIP)
		at += a->home;
	else if (f->base != NONE)
		at += general(a, f->base);
	if (f->index != NONE) {
		uint64_t index = general(a, f->index);
		at += (f->flags & DP_FORM_BYTE ? (uint8_t)index : index) * f->scale;
	}
	if (f->flags & DP_FORM_ADDR32)
		at = (uint32_t)at;
	at += base_of(f);
	return f->flags & DP_FORM_LINE ? at & -(uint64_t)f->size : at;
}

/* Of n bytes from at on, or, downwards, up to there, how many are not behind what is not mapped. */
static uint64_t mapped(uint64_t at, uint64_t n, int down)
{
	enum { LITTLE = 1 << 20, MUCH = 1 << 30, PAGE = DP_PAGE_SIZE };
	uint64_t done = 0, step = MUCH;
	while (n - done > LITTLE) {
		step = step < n - done ? step : n - done;
		uint64_t low = (down ? at - done - step : at + done) & -(uint64_t)PAGE;
		long is = dp_heat_asks() ? ask(SYS_msync, low, step, MS_ASYNC) : REFUSED; /* which does nothing but look */
		if (is == REFUSED)
			return n < MUCH ? n : MUCH;
		if (is == 0)
			done += step;
		else if (step > LITTLE)
			step /= 2;
		else
			return done + step;
	}
	return n;
}

static void tell(uint64_t page, unsigned kind, uint32_t by)
{
	volatile uint32_t *word = (volatile uint32_t *)DP_SHADOW + DP_SH_BY / sizeof *word * page;
	if (kind & LOAD)
		word[0] = by;
	if (kind & STORE)
		word[DP_SH_BY_WROTE / sizeof *word] = by;
}

static void touch(uint64_t at, uint64_t n, const struct dp_form *f)
{
	const uint64_t end = 1ULL << DP_SHADOW_BITS;
	uint64_t bits = dp_heat_granule(), last = at + n - 1;
	unsigned kind = f->kind & (LOAD | STORE);
	int tells = dp_heat_tells(dp_heat_how());
	volatile uint8_t *shadow = 0;
	if (!n || dp_is_off() || dp_stopped())
		return;
	shadow = dp_heat_shadow();
	if (last < at) /* it comes around: what is at the end is the kernel's */
		at = 0;
	if (last >= end)
		last = end - 1;
	for (uint64_t i = at >> bits; i <= last >> bits; i++) {
		if (tells) {
			tell(i, kind, f->by);
			continue;
		}
		if (kind & LOAD)
			shadow[2 * i] = NOTED;
		if (kind & STORE)
			shadow[2 * i + 1] = NOTED;
	}
}

/* One access. */
static void one(const struct access *a, const struct dp_form *f, uint64_t at, uint64_t n)
{
	if (a->what & DP_FORMS_TOUCH)
		touch(at, n, f);
	else
		dp_record(at, a->home, n | (uint64_t)f->kind << DP_RECORD_KIND);
}

/* A repeated instruction: count iterations, each with one or two operands, the first at these. */
struct row {
	const struct dp_form *f[2];
	uint64_t first[2], count, size;
	int operands, down;
};

static uint64_t low_of(const struct row *w, int k, uint64_t i, uint64_t n) { return w->down ? w->first[k] - (i + n - 1) * w->size : w->first[k] + i * w->size; }

/* Whether one of n iterations from i on may be to a region. */
static int may_be(const struct row *w, uint64_t i, uint64_t n)
{
	for (int k = 0; k < w->operands; k++)
		if (dp_region_may(low_of(w, k, i, n), n * w->size))
			return 1;
	return 0;
}

/* One record for each iteration, in order; what is in no region is gone over in large steps. */
static void record_row(const struct access *a, const struct row *w)
{
	for (uint64_t i = 0, n = w->count; i < w->count;) {
		while (n > 1 && may_be(w, i, n))
			n /= 2;
		for (int k = 0; k < w->operands && n == 1; k++)
			one(a, w->f[k], low_of(w, k, i, 1), w->size);
		i += n;
		n = n == 1 && may_be(w, i, 1) ? 1 : 2 * n;
		n = n < w->count - i ? n : w->count - i;
	}
}

static void repeated(const struct access *a, const struct dp_form *f)
{
	struct row w = {.f = {f, f + 1}, .count = general(a, 1), .size = f->size, .operands = f->more ? 2 : 1, .down = (a->r->eflags & DOWN) != 0};
	if (f->flags & DP_FORM_ADDR32)
		w.count = (uint32_t)w.count;
	for (int k = 0; k < w.operands && w.count; k++) {
		uint64_t at = address(a, w.f[k], 0), most = ~0ULL / w.size;
		w.first[k] = at;
		w.count = w.count < most ? w.count : most;
		w.count = (mapped(w.down ? at + w.size : at, w.count * w.size, w.down) + w.size - 1) / w.size;
	}
	if (!w.count)
		return;
	if (!(a->what & DP_FORMS_TOUCH)) {
		record_row(a, &w);
		return;
	}
	for (int k = 0; k < w.operands; k++)
		touch(low_of(&w, k, 0, w.count), w.count * w.size, w.f[k]);
}

/* Of a bit string: the operand that has the bit. */
static void bits(const struct access *a, const struct dp_form *f)
{
	uint64_t bit = general(a, f->mask);
	int64_t n = f->size == 2 ? (int16_t)bit : f->size == 4 ? (int32_t)bit : (int64_t)bit;
	one(a, f, address(a, f, (uint64_t)(n >> 3 & -(int64_t)f->size)), f->size);
}

/* Whether the CPU and the kernel have the registers. Else the instruction faults, and nothing is noted. */
static int has_vectors(const struct dp_form *f)
{
	const struct dp_cpu *cpu = dp_cpu();
	int words = f->way != DP_FORM_LANES && (f->way == DP_FORM_ANY ? f->element : f->size / f->element) > 16;
	return f->flags & DP_FORM_WIDE ? (words ? cpu->words : cpu->avx512) : f->flags & DP_FORM_VEX ? cpu->avx : 1;
}

static int sign(const uint8_t *vector, uint64_t i, uint64_t size) { return vector[i * size + size - 1] >> 7; }

/* The mask, a bit for each of n elements of so many bytes. */
static uint64_t mask_of(const struct dp_form *f, uint64_t n, uint64_t size)
{
	uint64_t mask = 0, all = n < 64 ? (1ULL << n) - 1 : ~0ULL;
	uint8_t vector[64];
	if (!(f->flags & DP_FORM_VECTOR))
		return (n > 16 ? dp_mask_quad(f->mask) : dp_mask_word(f->mask)) & all;
	dp_store_vector(f->mask, f->flags & DP_FORM_WIDE ? 2 : f->flags & DP_FORM_VEX ? 1 : 0, vector);
	for (uint64_t i = 0; i < n; i++)
		mask |= (uint64_t)sign(vector, i, size) << i;
	return mask;
}

/* What follows each other is one access. */
static void masked(const struct access *a, const struct dp_form *f)
{
	uint64_t size = f->element, n = f->size / size, mask = mask_of(f, n, size), at = address(a, f, 0);
	if (f->way == DP_FORM_PACKED) {
		uint64_t k = 0;
		for (; mask; mask &= mask - 1)
			k++;
		mask = k < 64 ? (1ULL << k) - 1 : ~0ULL;
	}
	for (uint64_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && mask >> end & 1; end++)
			;
		if (end > i)
			one(a, f, at + i * size, (end - i) * size);
		else
			end++;
	}
}

static void lanes(const struct access *a, const struct dp_form *f)
{
	uint64_t n = f->element, mask = mask_of(f, n, f->size);
	struct dp_form lane = *f;
	uint8_t index[64];
	dp_store_vector(f->index, f->flags & DP_FORM_WIDE ? 2 : 1, index);
	lane.index = NONE;
	for (uint64_t i = 0; i < n; i++)
		if (mask >> i & 1) {
			int64_t at = f->flags & DP_FORM_IS32 ? *(const int32_t *)(const void *)(index + 4 * i) : *(const int64_t *)(const void *)(index + 8 * i);
			one(a, f, address(a, &lane, (uint64_t)at * f->scale), f->size);
		}
}

static void any(const struct access *a, const struct dp_form *f)
{
	if (mask_of(f, f->element, 0))
		one(a, f, address(a, f, 0), f->size);
}

void dp_form_access(const struct dp_form *f, uint64_t home, uint64_t what, const struct dp_form_registers *r, const uint64_t *rsp)
{
	const struct access a = {r, rsp, home, what};
	if (f->way == DP_FORM_REPEATED) {
		repeated(&a, f);
		return;
	}
	for (;; f++) {
		switch (f->way < DP_FORM_MASKED || has_vectors(f) ? f->way : DP_FORM_LANES + 1) {
		case DP_FORM_LANES + 1:
			break;
		case DP_FORM_BITS:
			bits(&a, f);
			break;
		case DP_FORM_MASKED:
		case DP_FORM_PACKED:
			masked(&a, f);
			break;
		case DP_FORM_ANY:
			any(&a, f);
			break;
		case DP_FORM_LANES:
			lanes(&a, f);
			break;
		default:
			one(&a, f, address(&a, f, 0), f->size);
		}
		if (!f->more)
			return;
	}
}
