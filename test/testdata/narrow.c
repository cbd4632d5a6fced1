// narrow MB LIBRARY [data]: allows itself so much address space, or data, which others may
// raise again, then loads the library, maps half of what is allowed, and forks.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long sum;
__attribute__((noipa)) void step(void) { sum++; }

int main(int argc, char **argv)
{
	unsigned long space = strtoul(argc > 2 ? argv[1] : "", 0, 10) << 20;
	struct rlimit limit = {space, RLIM_INFINITY};
	if (!space || setrlimit(argc > 3 ? RLIMIT_DATA : RLIMIT_AS, &limit) != 0)
		return 2;
	for (int i = 0; i < 1000; i++)
		step();
	void *library = dlopen(argv[2], RTLD_NOW);
	printf("dlopen: %s\n", library ? "done" : dlerror());
	void (*late)(void) = library ? (void (*)(void))dlsym(library, "late_step") : 0;
	for (int i = 0; late && i < 300; i++)
		late();
	printf("mmap: %d\n", mmap(0, space / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	fflush(stdout);
	int pid = fork(), status = -1;
	if (!pid)
		_exit(5);
	waitpid(pid, &status, 0);
	printf("fork: %d\n", WEXITSTATUS(status));
	return 3;
}
