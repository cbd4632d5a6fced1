/* reopen LIB N: opens and closes LIB N times, and says how many mappings there are. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static long mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	long n = 0;
	for (int c; (c = getc(f)) != EOF;)
		n += c == '\n';
	fclose(f);
	return n;
}

int main(int argc, char **argv)
{
	for (int i = 1; i <= atoi(argv[2]); i++) {
		void *library = dlopen(argv[1], RTLD_NOW);
		if (!library)
			return puts(dlerror()), 1;
		dlclose(library);
		if (i % 200 == 0)
			printf("%d: %ld mappings\n", i, mappings());
	}
	return argc < 3;
}
