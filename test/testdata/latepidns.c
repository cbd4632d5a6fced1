/* Children that are each the first process of a pid namespace load the same libraries
 * at the same time: their threads have the same numbers. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void child(int n, char **libraries)
{
	for (int i = 0; i < n; i++) {
		void *library = dlopen(libraries[i], RTLD_NOW);
		int (*work)(int) = library ? (int (*)(int))dlsym(library, "late_work") : 0;
		if (!work)
			_exit(2);
		work(10 * (i + 1));
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	int children = atoi(argv[1]), bad = 0;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < children; i++) {
			long pid = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
			if (pid < 0)
				return 3;
			if (pid == 0)
				child(argc - 2, argv + 2);
		}
		for (int i = 0, status; i < children; i++)
			bad |= wait(&status) < 0 || status;
	}
	puts(bad ? "a child failed" : "all loaded");
	return bad;
}
