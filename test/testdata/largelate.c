// A large program that loads a library: so many megabytes that it uses, and the library's
// path. Prints what the library's first function makes of them. With one more argument it
// is where no planner can be made: its children live in another pid namespace.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	size_t size = argc > 2 ? (size_t)atoi(argv[1]) << 20 : 0;
	char *room = malloc(size + 1);
	if (!size || !room)
		return 2;
	memset(room, 1, size);
	if (argc > 3 && unshare(CLONE_NEWPID) != 0)
		return 3;
	void *library = dlopen(argv[2], RTLD_NOW);
	long (*(*many))(long) = library ? dlsym(library, "many") : 0;
	if (!many) {
		puts(dlerror());
		return 1;
	}
	printf("%ld\n", many[0](room[size - 1]));
	return 0;
}
