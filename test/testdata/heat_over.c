/* Maps memory over the shadow, and looks whether something is written there. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

__attribute__((noinline)) static void store(volatile unsigned long *to, unsigned long value)
{
	for (int i = 0; i < 4; i++)
		to[i] = value;
}

int main(void)
{
	enum { SIZE = 16 << 20, MANY = 4000 };
	static unsigned long words[MANY * 8];
	unsigned char *over = mmap((void *)0x80000000, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	unsigned long written = 0;
	for (unsigned long i = 0; i < MANY; i++)
		store(words + 8 * i, i);
	store((unsigned long *)over, 0);
	for (unsigned long i = 0; i < SIZE; i++)
		written += over[i];
	printf("%p, %lu bytes written\n", over, written);
	return 0;
}
