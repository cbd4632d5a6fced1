/* A chain of calls with frame pointers, for those who walk it. */
#include <stdio.h>

#define APART __attribute__((noinline, noipa))

APART long leaf(long n)
{
	long x = n;
	__asm__ volatile("" : : "r"(__builtin_frame_address(0))); /* so that it has one */
	for (int i = 0; i < 1000; i++)
		__asm__ volatile("add %1, %0" : "+r"(x) : "r"((long)i));
	return x;
}

APART long middle(long n) { return leaf(n) + 1; }
APART long outer(long n) { return middle(n) * 3; }

int main(void)
{
	long x = 0;
	for (long i = 0; i < 500000; i++)
		x ^= outer(i);
	printf("%ld\n", x);
	return 0;
}
