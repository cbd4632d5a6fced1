// A library that is loaded later and takes time (time.c).
#include <stdint.h>

__attribute__((noinline)) uint64_t late(uint64_t x, uint64_t steps)
{
	for (; steps > 0; steps--) {
		x = x * 0x5bd1e995 + 7;
		__asm__ volatile("" : "+r"(x));
	}
	return x;
}
