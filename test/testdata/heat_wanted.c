/* Exports NAME, as a sanitizer's library does, and has memory at AT, or ends. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

__attribute__((visibility("default"))) void NAME(void) {}

int main(void)
{
	enum { SIZE = 1 << 20 };
	unsigned char *at = mmap((void *)AT, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (at != (void *)AT) {
		puts("it is taken");
		return 1;
	}
	for (int i = 0; i < SIZE; i += 4096)
		at[i] = 1;
	printf("%p\n", (void *)at);
	return 0;
}
