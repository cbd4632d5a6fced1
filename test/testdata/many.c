/* The rest of a program of many functions: many [MB]. Each is called once. Then
 * the heap grows by so many MB, which are not touched. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern long (*many[])(long);
extern int many_count;

int main(int argc, char **argv)
{
	enum { STEP = 16 };
	long sum = 0, want = argc > 1 ? atol(argv[1]) : 0, got = 0;
	for (int i = 0; i < many_count; i++)
		sum += many[i](i & 15);
	while (got < want && sbrk(STEP << 20) != (void *)-1)
		got += STEP;
	printf("%ld %s\n", sum, got >= want ? "all" : "short");
	return 0;
}
