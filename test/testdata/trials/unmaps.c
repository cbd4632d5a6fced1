// Takes away all memory that is mapped shared: it has mapped none, so it knows none of it.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static struct { unsigned long low, high; } ranges[400];

int main(void)
{
	char line[600], mode[8];
	int n = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && n < 400 && fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx %7s", &ranges[n].low, &ranges[n].high, mode) == 3 && mode[3] == 's')
			n++;
	for (int i = 0; i < n; i++)
		munmap((void *)ranges[i].low, ranges[i].high - ranges[i].low);
	puts("done");
	return 0;
}
