/* A program without a vdso where it was: novdso unmapped, novdso moved. Behind the line that it
 * gets on stdin it calls work 1,000 times, and ends at the next. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

__asm__(".text; .skip 2048"); /* behind its code is room for system calls, as in most programs */

__attribute__((noinline)) long work(long x) { return x * 3 + 1; }

int main(int argc, char **argv)
{
	char line[512];
	long sum = 1;
	unsigned long low = 0, high = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, maps) && !strstr(line, "[vdso]"))
		;
	fclose(maps);
	sscanf(line, "%lx-%lx", &low, &high);
	if (argc > 1 && !strcmp(argv[1], "moved"))
		mremap((void *)low, high - low, high - low, MREMAP_MAYMOVE | MREMAP_FIXED, (char *)low - (1 << 20));
	else
		munmap((void *)low, high - low);
	setvbuf(stdout, 0, _IOLBF, 0);
	puts("ready");
	fgets(line, sizeof line, stdin);
	for (int i = 0; i < 1000; i++)
		sum += work(sum);
	printf("%ld\n", sum);
	fgets(line, sizeof line, stdin);
	return 0;
}
