// A large program that loads a library: so many megabytes that it uses, and the library's
// path. Prints what the library's first function makes of them. With "alone" it is where no
// planner can be made: its children live in another pid namespace. With "user" it is nobody
// for a while.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	size_t size = argc > 2 ? (size_t)atoi(argv[1]) << 20 : 0;
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* as many pages as there can be */
	char *room = malloc(size + 1);
	if (!size || !room)
		return 2;
	memset(room, 1, size);
	const char *how = argc > 3 ? argv[3] : "";
	if (!strcmp(how, "alone") && unshare(CLONE_NEWPID) != 0)
		return 3;
	if (!strcmp(how, "user") && (seteuid(65534) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0)) /* its /proc/self is its own */
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
