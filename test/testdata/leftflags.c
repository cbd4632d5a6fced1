/* Prints what functions return that read their flags behind calls. */
#include <stdio.h>

int direct(unsigned), jumped(unsigned), last(unsigned), own(unsigned), branched(unsigned), twice(unsigned);

int main(void)
{
	for (unsigned i = 0; i < 40; i++)
		printf("%u %d %d %d %d %d %d\n", i, direct(i), jumped(i), last(i), own(i), branched(i), twice(i));
}
