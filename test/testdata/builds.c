// Two builds of one program: with -DLATER there is a function more in front of the others,
// one less, one is called more often, and one is changed.
#include <stdio.h>
#include <stdlib.h>

#define FUNCTION __attribute__((noinline, noclone, used)) static

volatile int sink;

#ifdef LATER
FUNCTION int added(int n) { return n * 31 + sink * 7; }
#else
FUNCTION int dropped(int n) { return n ^ (sink << 3); }
#endif

FUNCTION int leaf(int n) { return n * n + sink; }
FUNCTION int twin_a(int n) { return n + 1; } // both have the same code
FUNCTION int twin_b(int n) { return n + 1; }
FUNCTION void hello(void) { fputs("hello\n", stderr); } // these differ in their strings only
FUNCTION void bye(void) { fputs("good bye\n", stderr); }

FUNCTION int changed(int n)
{
#ifdef LATER
	if (n & 1)
		n += 5;
#endif
	n += leaf(n) + leaf(n + 1);
	return n ^ leaf(sink);
}

FUNCTION int scaled(int n)
{
	int sum = 0;
#ifdef LATER
	for (int i = 0; i < 2 * n; i++)
#else
	for (int i = 0; i < n; i++)
#endif
		sum += twin_a(i);
	return sum + twin_b(n);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 10;
#ifdef LATER
	sink += added(n);
#else
	sink += dropped(n);
#endif
	hello();
	for (int i = 0; i < n; i++)
		sink += changed(i);
	sink += scaled(n);
	bye();
	return 0;
}
