/* See sum.h. */
#include "base/sum.h"

#define PRIME1 0x9e3779b185ebca87u
#define PRIME2 0xc2b2ae3d27d4eb4fu
#define PRIME3 0x165667b19e3779f9u
#define PRIME4 0x85ebca77c2b2ae63u
#define PRIME5 0x27d4eb2f165667c5u

static inline uint64_t turn(uint64_t v, int by) { return v << by | v >> (64 - by); }

static inline uint64_t word(const uint8_t *at) { return *(const __attribute__((may_alias)) uint64_t *)at; }

static inline uint64_t round_of(uint64_t lane, uint64_t input) { return turn(lane + input * PRIME2, 31) * PRIME1; }

static inline uint64_t merge(uint64_t sum, uint64_t lane) { return (sum ^ round_of(0, lane)) * PRIME1 + PRIME4; }

/* Stripes of 32 bytes, in four lanes; *at is left behind the last whole one. */
static uint64_t stripes(const uint8_t **at, const uint8_t *end)
{
	uint64_t a = PRIME1 + PRIME2, b = PRIME2, c = 0, d = -PRIME1;
	for (; end - *at >= 32; *at += 32) {
		a = round_of(a, word(*at));
		b = round_of(b, word(*at + 8));
		c = round_of(c, word(*at + 16));
		d = round_of(d, word(*at + 24));
	}
	uint64_t sum = turn(a, 1) + turn(b, 7) + turn(c, 12) + turn(d, 18);
	return merge(merge(merge(merge(sum, a), b), c), d);
}

uint64_t dp_xxh64(const void *bytes, uint64_t n)
{
	const uint8_t *at = bytes, *end = at + n;
	uint64_t sum = (n >= 32 ? stripes(&at, end) : PRIME5) + n;
	for (; end - at >= 8; at += 8)
		sum = turn(sum ^ round_of(0, word(at)), 27) * PRIME1 + PRIME4;
	if (end - at >= 4) {
		sum = turn(sum ^ *(const __attribute__((may_alias)) uint32_t *)at * PRIME1, 23) * PRIME2 + PRIME3;
		at += 4;
	}
	for (; at < end; at++)
		sum = turn(sum ^ *at * PRIME5, 11) * PRIME1;
	sum = (sum ^ sum >> 33) * PRIME2;
	sum = (sum ^ sum >> 29) * PRIME3;
	return sum ^ sum >> 32;
}
