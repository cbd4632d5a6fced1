/* Loads a library when so many bytes of address space are left, in a process group of its
 * own: a signal to that is seen, and ends nobody else. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static int steps;

__attribute__((noinline)) static void step(void) { steps++; }

int main(int argc, char **argv)
{
	setpgid(0, 0);
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (argc < 3 || !f || fscanf(f, "%lu", &pages) != 1)
		return 2;
	fclose(f);
	struct rlimit limit = {pages * 4096 + strtoul(argv[2], 0, 10), RLIM_INFINITY};
	step();
	setrlimit(RLIMIT_AS, &limit);
	void *library = dlopen(argv[1], RTLD_NOW);
	int (*work)(int) = library ? (int (*)(int))dlsym(library, "late_work") : 0;
	step();
	printf("%d %d\n", steps, work ? work(100) : -1);
	return 0;
}
