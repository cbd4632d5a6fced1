#include <stdio.h>

long evict_wall_before(long), evict_wall_behind(long), evict_loop(long);

int main(void)
{
	long sum = 0;
	for (int i = 0; i < 500; i++)
		sum += evict_loop(i % 7) + evict_wall_before(i) - evict_wall_behind(sum);
	printf("%ld\n", sum);
	return 0;
}
