/* What a program is told of its own blocks and loops, by dynprof.h. */
#include <errno.h>
#include <stdio.h>

#include "dynprof.h"

/* Its loop goes round n times. */
__attribute__((noipa)) unsigned spin(unsigned n)
{
	unsigned x = n;
	if (n)
		__asm__ volatile("1: lea 1(%0,%0,2), %0; dec %1; jnz 1b" : "+r"(x), "+r"(n) : : "cc");
	return x;
}

__attribute__((noipa)) unsigned nest(unsigned n)
{
	unsigned x = 0;
	for (unsigned i = 0; i < n; i++)
		x ^= spin(i);
	return x;
}

enum { MOST = 32 };

static void show(const char *name)
{
	struct dynprof_block blocks[MOST];
	struct dynprof_loop loops[MOST];
	int64_t f = dynprof_find(0, name), spins = dynprof_find(0, "spin");
	int64_t nb = dynprof_blocks(f, blocks, sizeof *blocks, MOST), nl = dynprof_loops(f, loops, sizeof *loops, MOST);
	uint64_t entries = 0, calls = 0, executed = 0;
	if (nb < 0 || nl < 0) {
		printf("%s: %d %d\n", name, (int)nb, (int)nl);
		return;
	}
	for (int i = 0; i < nb && i < MOST; i++) {
		entries += blocks[i].is_entry ? blocks[i].runs : 0;
		calls += blocks[i].callee == spins ? blocks[i].runs : 0;
		executed += blocks[i].loop >= 0 ? blocks[i].runs * blocks[i].instructions : 0;
	}
	printf("%s: entered %d, calls of spin %d", name, (int)entries, (int)calls);
	for (int i = 0; i < nl && i < MOST; i++)
		printf(", loop at %d: %d iterations, %d entries, parent %d, all its instructions %s", blocks[loops[i].header].loop,
		       (int)loops[i].iterations, (int)loops[i].entries, loops[i].parent, loops[i].instructions == executed ? "yes" : "no");
	printf("\n");
}

int main(void)
{
	struct dynprof_block one;
	struct dynprof_loop loop;
	unsigned x = 0;
	for (int i = 0; i < 10; i++)
		x += nest(8);
	show("spin");
	show("nest");
	printf("%d %d %d\n", (int)dynprof_blocks(1 << 30, &one, sizeof one, 1), (int)dynprof_blocks(dynprof_find(0, "spin"), &one, 8, 1),
	       (int)dynprof_loops(dynprof_find(0, "spin"), &loop, sizeof loop, 0));
	return x == 1;
}
