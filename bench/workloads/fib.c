/* Recursion: fib SIZE computes SIZE times the 20th Fibonacci number, each time
 * with 21,891 calls. */
#include "workload.h"

APART fib(long n) {
	if (n < 2)
		return n;
	long a = fib(n - 1), b = fib(n - 2);
	KEEP(a); /* or the compiler makes a loop of one call */
	KEEP(b);
	return a + b;
}

int main(int argc, char **argv) {
	long x = 0;
	begin_thread();
	for (long i = size(argc, argv); i > 0; i--)
		x += fib(20);
	printf("%ld\n", x);
}
