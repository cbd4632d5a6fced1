/* The rest of a program of many functions: many [MB]. Each is called once. Then
 * the heap grows by so many MB, which are not touched, and malloc works on. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern long (*many[])(long);
extern int many_count;

int main(int argc, char **argv)
{
	enum { STEP = 16 };
	static char *blocks[1000];
	long sum = 0, want = argc > 1 ? atol(argv[1]) : 0, got = 0;
	for (int i = 0; i < many_count; i++)
		sum += many[i](i & 15);
	while (got < want && sbrk(STEP << 20) != (void *)-1)
		got += STEP;
	for (int i = 0; i < 1000; i++) /* malloc goes on behind */
		memset(blocks[i] = malloc(10 * i + 1), i, 10 * i + 1);
	for (int i = 0; i < 1000; i++) {
		sum += *(unsigned char *)blocks[i];
		free(blocks[i]);
	}
	malloc_trim(0);
	printf("%ld %s\n", sum, got >= want ? "all" : "short");
	return 0;
}
