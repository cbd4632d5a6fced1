/* Two words that belong together, at a multiple of 16 bytes, and change at once. */
#ifndef DYNPROF_PAIR_H
#define DYNPROF_PAIR_H

#include <stdint.h>

/* Both, as they were together: they are looked at again until two looks in turn say the same. */
static inline void dp_read_pair(const void *at, uint64_t *low, uint64_t *high)
{
	const uint64_t *words = at;
	uint64_t low_again, high_again;
	do {
		*low = __atomic_load_n(&words[0], __ATOMIC_ACQUIRE);
		*high = __atomic_load_n(&words[1], __ATOMIC_ACQUIRE);
		low_again = __atomic_load_n(&words[0], __ATOMIC_ACQUIRE);
		high_again = __atomic_load_n(&words[1], __ATOMIC_ACQUIRE);
	} while (*low != low_again || *high != high_again);
}

/* Stores both, if they are still what they were. */
static inline int dp_exchange_pair(void *at, uint64_t low, uint64_t high, uint64_t new_low, uint64_t new_high)
{
	uint8_t done;
	__asm__ volatile("lock cmpxchg16b %1" : "=@ccz"(done), "+m"(*(__attribute__((may_alias)) uint64_t(*)[2])at), "+a"(low), "+d"(high) : "b"(new_low), "c"(new_high) : "memory");
	return done;
}

#endif
