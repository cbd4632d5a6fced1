/* Prints what functions return that read flags behind calls and system calls. */
#include <stdio.h>

int called(unsigned), jumped(unsigned), looped(unsigned), last(unsigned), entered(unsigned);

int main(void)
{
	for (unsigned i = 0; i < 40; i++)
		printf("%u %d %d %d %d %d\n", i, called(i), jumped(i), looped(i), last(i), entered(i));
}
