/* Calls of every kind that plain C has, each a fixed number of times. Prints
 * results, so that a run with the library can be compared with one without.
 * OWN functions stay functions at every optimisation level. */
#define _GNU_SOURCE
#include <alloca.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

OWN void show(const char *what, long value) { printf("%s %ld\n", what, value); }

/* ---- leaves and recursion ---- */

OWN static void nothing(void) { __asm__ volatile(""); }
OWN static int affine(int x) { return x * 3 + 1; }
OWN static int leaf_global(void) { static int n; return ++n; }

OWN static long depth(int n)
{
	volatile char room[64];
	room[n % 64] = (char)n;
	return n == 0 ? 0 : 1 + depth(n - 1) + room[n % 64] - (char)n;
}

OWN static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

OWN static int ackermann(int m, int n)
{
	if (m == 0)
		return n + 1;
	return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}

OWN static int hanoi(int n, int from, int to)
{
	return n == 0 ? 0 : hanoi(n - 1, from, 6 - from - to) + 1 + hanoi(n - 1, 6 - from - to, to);
}

static int is_odd(int n);
OWN static int is_even(int n) { return n == 0 ? 1 : is_odd(n - 1); }
OWN static int is_odd(int n) { return n == 0 ? 0 : is_even(n - 1); }

/* Three that call each other, not in tail position. */
static int wheel_b(int n);
static int wheel_c(int n);
OWN static int wheel_a(int n) { return n <= 0 ? 1 : wheel_b(n - 1) + wheel_c(n - 2); }
OWN static int wheel_b(int n) { return n <= 0 ? 2 : wheel_c(n - 1) * 3 % 1000; }
OWN static int wheel_c(int n) { return n <= 0 ? 3 : wheel_a(n - 1) + 1; }

/* ---- tail calls, and loops that begin at the entry ---- */

OWN static int tail_end(int a, int b) { return a * 2 + b; }
OWN static int tail_swap(int a, int b) { return tail_end(b, a); }
OWN static int tail_maybe(int a, int b) { return a > b ? tail_swap(a, b) : tail_end(a, b); }
OWN static int tail_pointer(int (*f)(int, int), int a) { return f(a, a + 1); }

/* From -O2 on a jump to the entry, or just behind it: one call. */
OWN static long tail_sum(long n, long sum) { return n == 0 ? sum : tail_sum(n - 1, sum + n); }
OWN static int gcd(int a, int b) { return b == 0 ? a : gcd(b, a % b); }

/* Loops without anything in front. */
OWN static void loop_down(volatile int *n)
{
	do
		--*n;
	while (*n > 0);
}

OWN static const char *loop_find(const char *s, int c)
{
	while (*s != c)
		s++;
	return s;
}

OWN static int loop_calls(int n)
{
	do
		nothing();
	while (--n > 0);
	return n;
}

/* ---- function pointers and switches ---- */

OWN static int op_add(int a, int b) { return a + b; }
OWN static int op_sub(int a, int b) { return a - b; }
OWN static int op_mul(int a, int b) { return a * b; }
static int (*const ops[])(int, int) = {op_add, op_sub, op_mul, op_add};

OWN static int pointers(int n)
{
	int x = 1;
	for (int i = 0; i < n; i++)
		x = ops[i & 3](x, i) & 0xffff;
	return x;
}

/* A jump table; some cases are tail calls. */
OWN static int dense(int k, int x)
{
	switch (k) {
	case 0: return affine(x);
	case 1: return x + 7;
	case 2: return tail_end(x, 3);
	case 3: x ^= 0x55; /* fall through */
	case 4: return x - 1;
	case 5: return op_mul(x, x);
	case 6: return -x;
	case 7: return op_sub(9, x);
	case 8: return x << 2;
	default: return 0;
	}
}

/* The switch is the first thing of a loop. */
OWN static int machine(const char *code)
{
	int x = 0;
	for (;;)
		switch (*code++) {
		case 'a': x += affine(x & 7); break;
		case 'b': x -= 1; break;
		case 'c': x = op_add(x, 5); break;
		case 'd': x *= 2; break;
		case 'e': nothing(); break;
		case 'f': x ^= 3; break;
		case 0: return x;
		}
}

OWN static int sparse(unsigned x)
{
	switch (x) {
	case 17: return 1;
	case 4711: return affine(2);
	case 1u << 30: return 3;
	}
	return 4;
}

/* ---- arguments and results ---- */

OWN static long sum_all(int n, ...)
{
	va_list list;
	long sum = 0;
	va_start(list, n);
	for (int i = 0; i < n; i++)
		sum += i % 2 ? (long)va_arg(list, double) : va_arg(list, int);
	va_end(list);
	return sum;
}

OWN static void say(char *out, size_t size, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	vsnprintf(out, size, format, list);
	va_end(list);
}

struct small { int a, b; };
struct big { long v[9]; };
OWN static struct small make_small(int x) { return (struct small){x, x + 1}; }
OWN static struct big make_big(long x) { return (struct big){{x, x + 1, x + 2, 0, 0, 0, 0, 0, x}}; }
OWN static long take_big(struct big b) { return b.v[0] + b.v[8]; }

OWN static double floats(double a, float b, long double c) { return a * b + (double)c; }
OWN static long many(long a, long b, long c, long d, long e, long f, long g, long h, double i)
{
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + (long)i;
}

OWN static int on_stack(int n)
{
	char *p = alloca((size_t)n), vla[n];
	memset(p, 1, (size_t)n);
	memset(vla, 2, (size_t)n);
	return p[n - 1] + vla[0];
}

/* ---- callbacks ---- */

static int compare_int(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static int tree_nodes;
static void tree_visit(const void *node, VISIT visit, int level)
{
	(void)node;
	tree_nodes += visit == leaf || visit == postorder ? level + 1 : 0;
}

static void callbacks(void)
{
	enum { N = 500 };
	static int v[N];
	void *root = 0;
	for (int i = 0; i < N; i++)
		v[i] = (i * 7919) % 10007;
	qsort(v, N, sizeof *v, compare_int);
	int found = 0;
	for (int key = 0; key < 200; key++)
		found += bsearch(&key, v, N, sizeof *v, compare_int) != 0;
	show("bsearch", found);
	for (int i = 0; i < N; i += 5)
		tsearch(&v[i], &root, compare_int);
	twalk(root, tree_visit);
	show("twalk", tree_nodes);
}

#ifndef __clang__
/* A nested function: called with its chain in r10, and through a trampoline. */
static int nested(int n)
{
	int calls = 0;
	int reverse(const void *a, const void *b)
	{
		calls++;
		return compare_int(b, a);
	}
	int v[64];
	for (int i = 0; i < 64; i++)
		v[i] = i * n % 67;
	qsort(v, 64, sizeof *v, reverse);
	return reverse(&v[0], &v[1]) < 0 ? calls : -calls;
}
#endif

/* ---- names ---- */

int named(int x);
OWN int named(int x) { return x + 5; }
int other_name(int x) __attribute__((alias("named")));
int weak_name(int x) __attribute__((weak, alias("named")));
int weak_only(int x);
OWN __attribute__((weak)) int weak_only(int x) { return x - 5; }
static __thread int in_tls;
OWN static int tls(int x) { return in_tls += x; }

int main(int argc, char **argv)
{
	long sum = 0;
	char text[64];
	for (int i = 0; i < 100; i++) {
		nothing();
		sum += affine(i) + leaf_global() + tail_maybe(i, 50) + tail_pointer(i % 2 ? op_add : tail_swap, i) +
		       dense(i % 10, i) + sparse(i % 3 ? 4711 : 17) + tls(i) + named(i) + other_name(i) + weak_name(i) + weak_only(i);
	}
	show("sum", sum);
	show("depth", depth(10000));
	show("fib", fib(15));
	show("ackermann", ackermann(2, 6));
	show("hanoi", hanoi(8, 1, 3));
	show("even", is_even(101) + is_even(200));
	show("wheel", wheel_a(20));
	show("tail_sum", tail_sum(1000, 0) + gcd(832040, 514229));
	int n = 300;
	loop_down(&n);
	show("loops", n + (loop_find("hay needle", 'n')[1] == 'e') + loop_calls(42));
	show("pointers", pointers(1001));
	show("machine", machine("abcdefabcabcdddbbbeeefffaaaccc"));
	show("varargs", sum_all(5, 1, 2.0, 3, 4.0, 5));
	say(text, sizeof text, "%d-%s-%g", 12, "ab", 0.5);
	puts(text);
	show("structs", make_small(4).b + take_big(make_big(9)));
	show("floats", (long)floats(1.5, 2.5f, 3.5L) + many(1, 2, 3, 4, 5, 6, 7, 8, 9.0) + on_stack(100) + on_stack(5000));
	callbacks();
#ifndef __clang__
	show("nested", nested(13));
#endif
	events(argc > 1 && !strcmp(argv[1], "faults"));
	return 3;
}
