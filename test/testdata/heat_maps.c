/* Touches memory of all kinds, each a while after the one before, and tells where, as
 * "WHAT ADDRESS BYTES"; then "ready". By a line it unmaps some of it, whose place nothing takes, and
 * by a second one does what that says: aborts, or executes it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 8 };

static char zeros[PAGES * PAGE];
char initialised[2 * PAGE] = {1};

__attribute__((noinline)) static void store(volatile char *to) { *to = 1; }
__attribute__((noinline)) static void load(const volatile char *from) { (void)*from; }

static void touch(const char *what, char *at, int writes)
{
	for (int i = 0; i < PAGES; i++)
		if (writes)
			store(at + i * PAGE);
		else
			load(at + i * PAGE);
	dprintf(1, "%s %p %d\n", what, (void *)at, PAGES * PAGE);
	usleep(20000);
}

int main(int argc, char **argv)
{
	int private = MAP_PRIVATE, rw = PROT_READ | PROT_WRITE;
	int file = open(argv[argc - 1], O_RDONLY);
	char word[256];
	usleep(100000); /* the start's mappings are told by now */
	touch("anonymous", mmap(0, PAGES * PAGE, rw, private | MAP_ANONYMOUS, -1, 0), 1);
	touch("shared", mmap(0, PAGES * PAGE, rw, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 1);
	touch("file", mmap(0, PAGES * PAGE, PROT_READ, private, file, 0), 0);
	touch("heap", sbrk(2 * PAGES * PAGE), 1);
	touch("bss", (char *)((uintptr_t)(zeros + PAGE - 1) & -PAGE) - PAGE, 1);
	char *gone = mmap(0, PAGES * PAGE, PROT_READ, private, file, 0);
	touch("gone", gone, 0);
	dprintf(1, "ready\n");
	if (!fgets(word, sizeof word, stdin))
		return 0;
	word[strcspn(word, "\n")] = 0;
	char *last = mmap(0, PAGES * PAGE, rw, private | MAP_ANONYMOUS, -1, 0);
	munmap(gone, PAGES * PAGE);
	touch("last", last, 1);
	dprintf(1, "unmapped\n");
	if (!fgets(word, sizeof word, stdin))
		return 0;
	word[strcspn(word, "\n")] = 0;
	if (strcmp(word, "abort") == 0)
		abort();
	execl(word, word, (char *)0);
	return initialised[0];
}
