/* C frames between C++ frames; -fexceptions, so that a throw may pass. */
#include <stdlib.h>

typedef int callback(void *arg);

int c_call(callback *f, void *arg);
int c_deep(int n, callback *f, void *arg);
int c_sort(int *v, int n, int (*compare)(const void *, const void *));

int c_call(callback *f, void *arg) { return f(arg) + 1; }

int c_deep(int n, callback *f, void *arg)
{
	volatile char room[32];
	room[n % 32] = 1;
	return (n == 0 ? c_call(f, arg) : c_deep(n - 1, f, arg)) + room[n % 32];
}

int c_sort(int *v, int n, int (*compare)(const void *, const void *))
{
	qsort(v, (size_t)n, sizeof *v, compare);
	return v[0];
}
