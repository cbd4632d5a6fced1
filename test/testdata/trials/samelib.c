/* So many children, one after the other, each of which opens the library:
 *
 *	samelib 4 LIBRARY
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	for (int i = 0; argc > 2 && i < atoi(argv[1]); i++) {
		if (fork() == 0) {
			if (!dlopen(argv[2], RTLD_NOW))
				puts(dlerror());
			_exit(0);
		}
		wait(0);
	}
	return 0;
}
