/* One number is all that two builds of it differ in. */
#include <stdio.h>

__attribute__((noinline)) static int price(int x) { return (x ^ 0x55aa) * 7 + PRICE; }

int main(int argc, char **argv)
{
	(void)argv;
	printf("%d\n", price(1000 + argc));
	return 0;
}
