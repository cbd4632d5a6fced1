/* Births for which there is no row lie here: whoever changes resume from 0 has the
 * place, and whoever needs it no more stores 0. */
#include "rows/birth.h"
#include "rows/lost.h"

enum { PLACES = 4096, TAKEN = 1 };
static struct dp_birth births[PLACES];
static uint32_t next; /* 0: none was ever taken */

struct dp_birth *dp_lost_take(void)
{
	for (uint32_t i = 0; i < PLACES; i++) {
		struct dp_birth *b = &births[__atomic_add_fetch(&next, 1, __ATOMIC_RELAXED) % PLACES];
		uint64_t none = 0;
		if (__atomic_compare_exchange_n(&b->resume, &none, TAKEN, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return b;
	}
	return 0;
}

void dp_lost_free(struct dp_birth *b) { __atomic_store_n(&b->resume, 0, __ATOMIC_RELEASE); }

int dp_is_lost(const struct dp_birth *b) { return b >= births && b < births + PLACES; }

void dp_lost_forked(const struct dp_birth *own)
{
	for (uint32_t i = 0; next && i < PLACES; i++)
		if (&births[i] != own && births[i].resume)
			births[i].resume = 0;
}
