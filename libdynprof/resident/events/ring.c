/* Events on their way to the translator: a bounded queue without locks, after
 * D. Vyukov, "Bounded MPMC queue", 2010. A place's turn says whose it is:
 *  1. It is i for who puts event number i; a compare-and-swap of the head from i
 *     to i+1 takes the place. Nobody else has it until the turn changes.
 *  2. When the event is in it the turn becomes i+1: who takes event number i may.
 *  3. When the event is out it becomes i+PLACES, for the next time round.
 * A thread that is stopped between 1 and 2 holds up those who take, not those who
 * put; they see an empty queue until it goes on. */
#include "events/ring.h"

enum { PLACES = 1024 };

static struct place {
	uint64_t turn;
	struct dp_hot event;
} places[PLACES];
static uint64_t head, tail;

void dp_ring_begin(void)
{
	for (uint64_t i = 0; i < PLACES; i++)
		places[i].turn = i;
	head = tail = 0;
}

int dp_ring_put(const struct dp_hot *e)
{
	uint64_t i = __atomic_load_n(&head, __ATOMIC_RELAXED);
	for (;;) {
		struct place *p = &places[i % PLACES];
		int64_t off = (int64_t)(__atomic_load_n(&p->turn, __ATOMIC_ACQUIRE) - i);
		if (off < 0)
			return 0; /* full */
		if (off > 0) {
			i = __atomic_load_n(&head, __ATOMIC_RELAXED);
		} else if (__atomic_compare_exchange_n(&head, &i, i + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			p->event = *e;
			__atomic_store_n(&p->turn, i + 1, __ATOMIC_RELEASE);
			return 1;
		}
	}
}

int dp_ring_take(struct dp_hot *e)
{
	uint64_t i = __atomic_load_n(&tail, __ATOMIC_RELAXED);
	for (;;) {
		struct place *p = &places[i % PLACES];
		int64_t off = (int64_t)(__atomic_load_n(&p->turn, __ATOMIC_ACQUIRE) - (i + 1));
		if (off < 0)
			return 0; /* empty */
		if (off > 0) {
			i = __atomic_load_n(&tail, __ATOMIC_RELAXED);
		} else if (__atomic_compare_exchange_n(&tail, &i, i + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			*e = p->event;
			__atomic_store_n(&p->turn, i + PLACES, __ATOMIC_RELEASE);
			return 1;
		}
	}
}
