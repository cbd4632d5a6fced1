/* 100 functions called in turn: hundred SIZE makes SIZE * 1000 calls of each. */
#include "workload.h"

#define FUNCTION(n) APART f##n(long x) { KEEP(x); return x * 3 + 1##n; }
#define CALL(n) x = f##n(x);
#define ALL(X) TIMES10(X, 0) TIMES10(X, 1) TIMES10(X, 2) TIMES10(X, 3) TIMES10(X, 4) \
	TIMES10(X, 5) TIMES10(X, 6) TIMES10(X, 7) TIMES10(X, 8) TIMES10(X, 9)

ALL(FUNCTION)

int main(int argc, char **argv) {
	long x = 0;
	begin_thread();
	for (long i = size(argc, argv) * 1000; i > 0; i--) {
		ALL(CALL)
	}
	printf("%ld\n", x);
}
