/* A program that knows nothing of translators. */
#include <stdio.h>
#include <unistd.h>
#define F(n) __attribute__((noinline, noclone)) long leaf_##n(long x) { __asm__ volatile("" ::: "memory"); return x * n + (x >> 3); }
F(3) F(5) F(9)
int main(void)
{
	long sum = 0;
	for (int i = 0; i < 1000; i++) {
		sum += leaf_3(i) + leaf_5(i) + leaf_9(i);
		if (i % 50 == 0)
			usleep(12000); /* so that a thread beside it gets a turn, on a busy machine, too */
	}
	printf("%ld\n", sum);
	return 0;
}
