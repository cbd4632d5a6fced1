/* Slots of the PLT that calls are led past: closed since the object was relocated. Who
 * opens them, by mprotect, a kernel site, is about to have these calls go elsewhere; so they
 * go by the slots again from then on (giveback.c). The list only grows.
 */
#include "base/layout.h"
#include "base/pieces.h"
#include "base/stub.h"
#include "texts/slots.h"

enum { ENDBR_SIZE = 4, PREFIX_BND = 0xf2 };

static int is_endbr(const uint8_t *at) { return same_bytes(at, "\xf3\x0f\x1e\xfa", ENDBR_SIZE); }

/* What a jump of the PLT, an endbr64 and a bnd before it or not, jumps by; 0: it is none. */
static const uint64_t *slot_of(const uint8_t *at)
{
	if (is_endbr(at))
		at += ENDBR_SIZE;
	at += *at == PREFIX_BND;
	if (at[0] != 0xff || at[1] != 0x25) /* jmp *slot(%rip) */
		return 0;
	return (const uint64_t *)(at + 6 + *(const int32_t *)(at + 2));
}

/* Whether at an offset stands the jump of a function's entry: the call that is led may go to
 * a stub of its own site. */
static int is_entry_of(const struct dp_undo_text *t, uint64_t offset, uint32_t group)
{
	uint32_t low = 0, high = t->count;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		if (dp_listed_of(t)[mid].at < offset)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == t->count || dp_listed_of(t)[low].at != offset || dp_is_call(t, low))
		return 0;
	const struct dp_overwritten *p = dp_overwritten_of(t, low);
	return p->group == group && p->kind == DP_UNDO_FIRST && same_bytes((const uint8_t *)t->start + offset, p->new, p->len);
}

const uint64_t *dp_slot_to(const struct dp_undo_text *t, const struct dp_led *led)
{
	enum { MOST = ENDBR_SIZE + 1 + 6 }; /* bytes of a jump of the PLT */
	const uint64_t *slot = led->entry < t->size - MOST ? slot_of((const uint8_t *)t->start + led->entry) : 0;
	if (!slot || *slot - t->start >= t->size - MOST)
		return 0;
	const uint8_t *at = (const uint8_t *)*slot;
	if (is_endbr(at))
		at += ENDBR_SIZE;
	return *at == DP_OP_JMP && is_entry_of(t, (uint64_t)at - t->start, led->group) ? slot : 0;
}

struct list {
	struct list *older;
	uint64_t used; /* stored last */
	struct dp_slots slots[(DP_PAGE_SIZE - 2 * sizeof(uint64_t)) / sizeof(struct dp_slots)];
};

static struct list *newest;

static int make_room(void)
{
	if (newest && newest->used < sizeof newest->slots / sizeof *newest->slots)
		return 1;
	struct list *l = dp_zeros(sizeof *l, 0);
	if (!l)
		return 0;
	l->older = newest;
	__atomic_store_n(&newest, l, __ATOMIC_RELEASE);
	return 1;
}

int dp_watch_slots(const struct dp_undo_text *t, uint64_t low, uint64_t high)
{
	if (!make_room())
		return 0;
	newest->slots[newest->used] = (struct dp_slots){t, low, high};
	__atomic_store_n(&newest->used, newest->used + 1, __ATOMIC_RELEASE);
	return 1;
}

struct dp_slots *dp_slots_in(uint64_t low, uint64_t high)
{
	for (struct list *l = __atomic_load_n(&newest, __ATOMIC_ACQUIRE); l; l = l->older)
		for (uint64_t i = 0, used = __atomic_load_n(&l->used, __ATOMIC_ACQUIRE); i < used; i++)
			if (l->slots[i].low < high && __atomic_load_n(&l->slots[i].high, __ATOMIC_RELAXED) > low)
				return &l->slots[i];
	return 0;
}

void dp_forget_slots(struct dp_slots *s) { __atomic_store_n(&s->high, 0, __ATOMIC_RELAXED); }

int dp_has_slots(const struct dp_undo_text *first, uint64_t count)
{
	for (struct list *l = __atomic_load_n(&newest, __ATOMIC_ACQUIRE); l; l = l->older)
		for (uint64_t i = 0; i < l->used; i++)
			if (l->slots[i].text >= first && l->slots[i].text < first + count && l->slots[i].high)
				return 1;
	return 0;
}
