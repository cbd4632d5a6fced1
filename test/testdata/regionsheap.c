/* Stores 500 bytes in the heap that brk makes larger, which grows meanwhile, and 7 in a block of
 * malloc's that is mapped. */
#include <stdlib.h>

#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noipa))
#endif

ALONE void store(unsigned char *p, int n) { __asm__ volatile("movb %b1, (%0)" : : "r"(p), "q"(n) : "memory"); }

ALONE int filled(void) /* behind it: store is moved as a whole */
{
	unsigned char *small = malloc(100), *large = malloc(1 << 20);
	if (!small || !large)
		return 1;
	for (int i = 0; i < 100; i++)
		store(small + i, i);
	for (int i = 0; i < 7; i++)
		store(large + i * 100000, i);
	for (int i = 0; i < 200; i++) {
		unsigned char *p = malloc(10000);
		if (!p)
			return 1;
		store(p, 1);
		store(p + 9999, 1);
	}
	return 0;
}

int main(void) { return filled(); }
