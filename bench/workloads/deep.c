/* Deep call trees: 100 functions, each calling the next, which is more than the
 * CPU predicts returns of; and a binary tree of calls 10 deep under the last one
 * in each tenth round. deep SIZE makes SIZE * 1000 calls of each of the hundred,
 * and SIZE * 100 * 1023 of branch. */
#include "workload.h"

APART branch(long depth, long x) {
	if (depth > 1) {
		x = branch(depth - 1, x);
		KEEP(x);
		x = branch(depth - 1, x + 1);
	}
	KEEP(x);
	return x + 1;
}

#define DECLARE(n) APART d##n(long x);
#define CHAIN(n, next) APART d##n(long x) { x = d##next(x + 1); KEEP(x); return x; }
#define ALL(X) TIMES10(X, 0) TIMES10(X, 1) TIMES10(X, 2) TIMES10(X, 3) TIMES10(X, 4) \
	TIMES10(X, 5) TIMES10(X, 6) TIMES10(X, 7) TIMES10(X, 8) TIMES10(X, 9)
#define NINE(t) CHAIN(t##0, t##1) CHAIN(t##1, t##2) CHAIN(t##2, t##3) CHAIN(t##3, t##4) CHAIN(t##4, t##5) \
	CHAIN(t##5, t##6) CHAIN(t##6, t##7) CHAIN(t##7, t##8) CHAIN(t##8, t##9)

ALL(DECLARE)
NINE(0) CHAIN(09, 10) NINE(1) CHAIN(19, 20) NINE(2) CHAIN(29, 30) NINE(3) CHAIN(39, 40) NINE(4) CHAIN(49, 50)
NINE(5) CHAIN(59, 60) NINE(6) CHAIN(69, 70) NINE(7) CHAIN(79, 80) NINE(8) CHAIN(89, 90) NINE(9)

APART d99(long x) {
	KEEP(x);
	return x % 1000 == 99 ? branch(10, x) : x;
}

int main(int argc, char **argv) {
	long sum = 0;
	begin_thread();
	for (long i = size(argc, argv) * 1000; i > 0; i--)
		sum += d00(i % 10 == 0 ? 0 : 1);
	printf("%ld\n", sum);
}
