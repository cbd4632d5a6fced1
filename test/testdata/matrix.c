/* For every combination of compiler flags: functions that count themselves.
 * Nothing here calls itself in tail position, which an optimiser may make a
 * loop: the number of calls does not depend on the flags. */
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tally.h"

OWN static int leaf(int x) { ENTER; return x * 3 + 1; }
OWN static void nothing(void) { ENTER; }

static volatile int kept; /* keeps a recursion from becoming a loop */

OWN static int fib(int n)
{
	ENTER;
	if (n < 2)
		return n;
	int sum = fib(n - 1) + fib(n - 2);
	kept = sum;
	return sum;
}

static int is_odd(int n);
OWN static int is_even(int n) { ENTER; return n == 0 ? 1 : is_odd(n - 1); }
OWN static int is_odd(int n) { ENTER; return n == 0 ? 0 : is_even(n - 1); }

OWN static int tail_end(int a, int b) { ENTER; return a - b; }
OWN static int tail(int a, int b) { ENTER; return a > 20 ? tail_end(b, a) : leaf(a); }

OWN static int op_add(int a, int b) { ENTER; return a + b; }
OWN static int op_sub(int a, int b) { ENTER; return a - b; }
OWN static int op_mul(int a, int b) { ENTER; return a * b; }
static int (*volatile ops[])(int, int) = {op_add, op_sub, op_mul};

OWN static int dense(int k, int x)
{
	ENTER;
	switch (k) {
	case 0: return leaf(x);
	case 1: return x + 7;
	case 2: return tail_end(x, 3);
	case 3: nothing(); /* fall through */
	case 4: return x - 1;
	case 5: return op_mul(x, x);
	case 6: return -x;
	case 7: return op_sub(9, x);
	default: return 0;
	}
}

OWN static long varargs(int n, ...)
{
	ENTER;
	va_list list;
	long sum = 0;
	va_start(list, n);
	for (int i = 0; i < n; i++)
		sum += i % 2 ? (long)va_arg(list, double) : va_arg(list, int);
	va_end(list);
	return sum;
}

struct big { long v[8]; };
OWN static struct big make_big(long x) { ENTER; return (struct big){{x, 1, 2, 3, 4, 5, 6, x}}; }
OWN static long take_big(struct big b) { ENTER; return b.v[0] + b.v[7]; }
OWN static double floats(double a, float b, long double c) { ENTER; return a * b + (double)c; }

OWN static int dynamic(int n)
{
	ENTER;
	char *p = alloca((size_t)n), vla[n];
	memset(p, 1, (size_t)n);
	memset(vla, 2, (size_t)n);
	return p[n - 1] + vla[0];
}

OWN static int compare(const void *a, const void *b) { ENTER; return *(const int *)a - *(const int *)b; }

static jmp_buf env;
OWN static void leap(int n)
{
	ENTER;
	if (n == 0)
		longjmp(env, 1);
	leap(n - 1);
	kept++;
}

static volatile sig_atomic_t signalled;
OWN static void handler(int sig) { ENTER; signalled += sig; }

static __thread int in_tls;
OWN static int tls(int x) { ENTER; return in_tls += x; }

int global(int x);
OWN int global(int x) { ENTER; return x + 5; }
int alias(int x) __attribute__((alias("global")));

OWN __attribute__((constructor)) static void constructed(void) { ENTER; in_tls = 1; }
OWN __attribute__((cold)) static int unlikely(int x) { ENTER; return x ? 1 : abs(x); }

int main(void)
{
	volatile long sum = 0;
	int v[200];
	for (int i = 0; i < 60; i++) {
		sum += leaf(i) + tail(i, 2) + ops[i % 3](i, 4) + dense(i % 9, i) + tls(i) + global(i) + alias(i);
		if (i == 33)
			sum += unlikely(i);
	}
	sum += fib(12) + is_even(50) + varargs(4, 1, 2.0, 3, 4.0) + take_big(make_big(9)) + (long)floats(1.5, 2.5f, 3.5L) + dynamic(300);
	for (int i = 0; i < 200; i++)
		v[i] = i * 7919 % 10007;
	qsort(v, 200, sizeof *v, compare);
	volatile int leaps = 0;
	if (setjmp(env), leaps++ < 3)
		leap(6);
	signal(SIGUSR1, handler);
	for (int i = 0; i < 5; i++)
		raise(SIGUSR1);
	printf("%ld %d %d %d\n", sum, v[100], leaps, (int)signalled);
	return 7;
}
