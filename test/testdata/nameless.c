/* Files without a name: "nameless HOW exec PROGRAM ARG..." executes a copy of
 * the program, "nameless HOW load LIBRARY" loads one of the library. HOW is
 * memfd, or unlinked, which is what an upgrade does to the files of programs
 * that run. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;

static int copy_of(const char *path, int memfd)
{
	char name[] = "/tmp/dynprof-nameless-XXXXXX", b[65536];
	int from = open(path, O_RDONLY | O_CLOEXEC);
	int to = memfd ? memfd_create("nameless", 0) : mkstemp(name);
	long n;
	while ((n = read(from, b, sizeof b)) > 0)
		if (write(to, b, n) != n)
			exit(3);
	if (memfd)
		return to;
	fchmod(to, 0755);
	close(to); /* a file that is open for writing is not executed */
	to = open(name, O_RDONLY);
	unlink(name);
	return to;
}

__attribute__((noinline)) static int step(int x) { return x ^ x >> 3; }

int main(int argc, char **argv)
{
	int sum = 0;
	char path[64];
	for (int i = 0; i < 1000; i++)
		sum += step(i);
	printf("steps %d\n", sum);
	fflush(stdout);
	if (argc < 4)
		return 7;
	snprintf(path, sizeof path, "/proc/self/fd/%d", copy_of(argv[3], strcmp(argv[1], "memfd") == 0));
	if (strcmp(argv[2], "exec") == 0) {
		if (strcmp(argv[1], "memfd") == 0)
			fexecve(atoi(strrchr(path, '/') + 1), argv + 3, environ);
		execv(path, argv + 3);
		return 4;
	}
	void *library = dlopen(path, RTLD_NOW);
	if (!library)
		return puts(dlerror()), 5;
	close(atoi(strrchr(path, '/') + 1));
	printf("work %d\n", ((int (*)(int))dlsym(library, "late_work"))(1000));
	return 7;
}
