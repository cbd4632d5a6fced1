/* Makes a program large, as copies of processes go; at its end it writes the number
 * of mappings that have LARGE_LOOKS_FOR in their line to the file LARGE_SAYS. It
 * changes the time of the file LARGE_TOUCHES. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utime.h>

static char *memory;

__attribute__((constructor)) static void grow(void)
{
	enum { SIZE = 16 << 20, PAGE = 4096 };
	memory = malloc(SIZE);
	for (int i = 0; i < SIZE; i += PAGE)
		((volatile char *)memory)[i] = 1;
	if (getenv("LARGE_TOUCHES"))
		utime(getenv("LARGE_TOUCHES"), &(struct utimbuf){1, 1});
}

__attribute__((destructor)) static void say(void)
{
	const char *name = getenv("LARGE_SAYS"), *what = getenv("LARGE_LOOKS_FOR");
	char line[8192];
	int n = 0;
	if (!name || !what)
		return;
	FILE *maps = fopen("/proc/self/maps", "r"), *to = fopen(name, "w");
	while (maps && fgets(line, sizeof line, maps))
		n += strstr(line, what) != 0;
	fprintf(to, "%d", n);
	fclose(to);
}
