/* Whether files are plans that may be used: each comes with its size in front. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/sum.c"
#include "warm/check.c"

int main(void)
{
	uint64_t size;
	while (fread(&size, sizeof size, 1, stdin) == 1) {
		/* What is read behind its end is a fault. */
		uint64_t room = pages(size) + DP_PAGE_SIZE;
		char *at = mmap(0, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		char *plan = at + ((room - DP_PAGE_SIZE - size) & ~15ul);
		if (at == MAP_FAILED || mprotect(at + room - DP_PAGE_SIZE, DP_PAGE_SIZE, PROT_NONE) != 0 || fread(plan, 1, size, stdin) != size)
			return 1;
		putchar(dp_plan_is_sound((const struct dp_plan_file *)plan, size) ? '1' : '0');
		munmap(at, room);
	}
	return 0;
}
