/* Prints what functions return that pass status flags on. */
#include <stdio.h>

int called(unsigned), jumped(unsigned), branched(unsigned);

int main(void)
{
	for (unsigned i = 0; i < 40; i++)
		printf("%u %d %d %d\n", i, called(i), jumped(i), branched(i));
}
