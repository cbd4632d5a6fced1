/* Functions that are called as their names say, with n from the command line, a power of 2. */
#include <stdio.h>
#include <stdlib.h>

#define COUNTED __attribute__((noinline, noclone)) void
COUNTED once(void) { __asm__ volatile("" ::: "memory"); }
COUNTED logarithm(void) { __asm__ volatile("nop" ::: "memory"); }
COUNTED linear(void) { __asm__ volatile("nop; nop" ::: "memory"); }
COUNTED n_log_n(void) { __asm__ volatile("nop; nop; nop" ::: "memory"); }
COUNTED square(void) { __asm__ volatile("nop; nop; nop; nop" ::: "memory"); }
COUNTED cube(void) { __asm__ volatile("nop; nop; nop; nop; nop" ::: "memory"); }
COUNTED never(void) { __asm__ volatile("nop; nop; nop; nop; nop; nop" ::: "memory"); }

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	long n = atol(argv[1]);
	if (n == 0)
		never();
	once();
	for (long step = n; step > 1; step /= 2) {
		logarithm();
		for (long i = 0; i < n; i++)
			n_log_n();
	}
	for (long i = 0; i < n; i++) {
		linear();
		for (long j = 0; j < n; j++)
			square();
	}
	for (long i = 0; i < n * n * n; i++)
		cube();
	puts("done");
	return n == 64 ? 3 : 0;
}
