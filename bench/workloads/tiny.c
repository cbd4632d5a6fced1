/* 5,000 tiny functions called in turn: tiny SIZE makes SIZE calls of each. Their
 * code does not fit into the first cache, nor their jumps into the predictor's
 * first level. */
#include "workload.h"

#define FUNCTION(n) APART t##n(long x) { KEEP(x); return x + 1##n; }
#define CALL(n) x = t##n(x);
#define TIMES100(X, n) TIMES10(X, n##0) TIMES10(X, n##1) TIMES10(X, n##2) TIMES10(X, n##3) TIMES10(X, n##4) \
	TIMES10(X, n##5) TIMES10(X, n##6) TIMES10(X, n##7) TIMES10(X, n##8) TIMES10(X, n##9)
#define TIMES1000(X, n) TIMES100(X, n##0) TIMES100(X, n##1) TIMES100(X, n##2) TIMES100(X, n##3) TIMES100(X, n##4) \
	TIMES100(X, n##5) TIMES100(X, n##6) TIMES100(X, n##7) TIMES100(X, n##8) TIMES100(X, n##9)
#define ALL(X) TIMES1000(X, 0) TIMES1000(X, 1) TIMES1000(X, 2) TIMES1000(X, 3) TIMES1000(X, 4)

ALL(FUNCTION)

int main(int argc, char **argv) {
	long x = 0;
	begin_thread();
	for (long i = size(argc, argv); i > 0; i--) {
		ALL(CALL)
	}
	printf("%ld\n", x);
}
