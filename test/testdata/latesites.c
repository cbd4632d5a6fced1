/* latesites LIBRARY ANOTHER TIMES THREADS ROUNDS [HOW]: opens the library, which is sites.c, has it
 * do its work, closes it, so many times; once more in a forked child; and in the end in the
 * parent, where it is told how. With `kill` a thread opens and closes another library then. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *open_it(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	if (!library) {
		puts(dlerror());
		exit(2);
	}
	return library;
}

static void *reopen(void *path)
{
	for (;;)
		dlclose(open_it(path));
	return 0;
}

/* What it prints is there when it is killed. */
static void once(const char *path, int argc, char **argv)
{
	void *library = open_it(path);
	if (((int (*)(int, char **))dlsym(library, "work_here"))(argc, argv))
		exit(4);
	fflush(stdout);
	dlclose(library);
}

int main(int argc, char **argv)
{
	enum { HOW = 6 };
	pthread_t another;
	int status;
	if (argc < HOW)
		return 1;
	for (int i = atoi(argv[3]); i > 0; i--)
		once(argv[1], HOW - 3, argv + 3);
	pid_t child = fork();
	if (child == 0) {
		once(argv[1], HOW - 3, argv + 3);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		return 3;
	if (argc > HOW && !strcmp(argv[HOW], "kill"))
		pthread_create(&another, 0, reopen, argv[2]);
	once(argv[1], argc - 3, argv + 3);
	return 0;
}
