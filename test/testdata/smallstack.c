/* Loads a library on a stack of so many bytes, which a page behind it ends, and says what its
 * function makes of 10. Without a number: how few bytes will do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static ucontext_t before, on;
static const char *path;
static int result;

static void load(void)
{
	void *library = dlopen(path, RTLD_NOW);
	int (*work)(int) = library ? (int (*)(int))dlsym(library, "late_work") : 0;
	result = work ? work(10) : -1;
}

static void load_on(size_t size)
{
	enum { GUARD = 64 << 10, MOST = 1 << 20 };
	char *room = mmap(0, GUARD + MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(room, GUARD, PROT_NONE);
	getcontext(&on);
	on.uc_stack.ss_sp = room + GUARD;
	on.uc_stack.ss_size = size;
	on.uc_link = &before;
	makecontext(&on, load, 0);
	swapcontext(&before, &on);
}

static int does(size_t size)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		load_on(size);
		_exit(result < 0);
	}
	waitpid(child, &status, 0);
	return status == 0;
}

int main(int argc, char **argv)
{
	path = argv[1];
	if (argc > 2) {
		load_on((size_t)atoi(argv[2]));
		printf("%d\n", result);
		return result < 0;
	}
	size_t few = 1024, many = 256 << 10;
	while (many - few > 16) {
		size_t half = (few + many) / 32 * 16;
		*(does(half) ? &many : &few) = half;
	}
	printf("%zu\n", many);
	return 0;
}
