// Neighbours of a function whose entry takes some of their instructions away (evict.S) run very
// often, that function once.
#include <stdio.h>
#include <stdlib.h>

long evict_wall_before(long), evict_wall_behind(long), evict_loop(long);

int main(int argc, char **argv)
{
	long sum = evict_loop(3);
	for (long i = argc > 1 ? atol(argv[1]) : 0; i > 0; i--)
		sum += evict_wall_before(i) - evict_wall_behind(sum);
	printf("%ld\n", sum);
	return 0;
}
