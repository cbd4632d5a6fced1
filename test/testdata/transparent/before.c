/* A user's own preloaded library: it stands between the program and libc. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/types.h>

pid_t getppid(void)
{
	pid_t (*next)(void) = (pid_t (*)(void))dlsym(RTLD_NEXT, "getppid");
	return next ? next() : -1;
}

unsigned alarm(unsigned seconds)
{
	return seconds + 4242;
}
