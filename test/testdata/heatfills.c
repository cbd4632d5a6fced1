/* Fills more than 1 MB by one instruction, and says which pages that is (heat_test.go). */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 1024, SHOWN = 128, FROM = 5, N = 600 };

__attribute__((noinline, noclone)) void fill(char *p, long n, int c)
{
	__asm__ volatile("rep stosb" : "+D"(p), "+c"(n) : "a"(c) : "memory");
}

int main(void)
{
	char *base = mmap((void *)0x200000000000, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (base == MAP_FAILED)
		return 1;
	fill(base + FROM * PAGE, N * PAGE, 7);
	fill(base + PAGE, PAGE, 7);
	for (int i = 0; i < SHOWN; i++)
		if (i == 1 || i >= FROM)
			printf("page %d -w\n", i);
	printf("%d %d\n", base[(FROM + N) * PAGE - 1], base[(FROM + N) * PAGE]);
	return 3;
}
