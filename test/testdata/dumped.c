/* A program whose file ends where its heap begins, as of a Lisp system that has
 * written itself to a file: it says whether the heap does go on there. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern char end[];

__attribute__((noinline)) static int leaf(int n)
{
	__asm__ volatile("" ::: "memory");
	return n * 3 + 1;
}

int main(void)
{
	char *start = sbrk(0), *behind = (char *)(((unsigned long)end + 4095) & -4096ul);
	int grows = sbrk(64 << 20) == start && (char *)sbrk(0) == start + (64 << 20), sum = 0;

	for (int i = 0; i < 1000; i++)
		sum += leaf(i);
	printf("%d: the heap is %s\n", sum, start == behind ? "behind the file" : "elsewhere");
	printf("and %s\n", grows ? "grows" : "does not grow");
	return 0;
}
