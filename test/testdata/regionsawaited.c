/* Accesses to variables before a function is called, and from then on. With -DLIBRARY a library that
 * does that with its own. */
#define NOINLINE __attribute__((noinline))

static NOINLINE void touch(volatile long *at, long n)
{
	for (long i = 0; i < n; i++)
		at[i % 8]++;
}

#ifdef LIBRARY
long counters[8];
volatile long begun;
NOINLINE void begin(void) { begun = 1; }

void work(void)
{
	touch(counters, 1000);
	begin();
	touch(counters, 50);
}
#else
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

long table[8];

NOINLINE void init_done(long n) { touch(table, n); }

static void *in_thread(void *p)
{
	init_done(3);
	touch(table, 100);
	return p;
}

static int run_library(const char *path)
{
	void *library = dlopen(path, RTLD_NOW), (*work)(void) = 0;
	if (!library || !(*(void **)&work = dlsym(library, "work")))
		return 1;
	work();
	return dlclose(library);
}

int main(int argc, char **argv)
{
	pthread_t t;
	touch(table, 1000);
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "call")) {
			init_done(3);
			touch(table, 100);
		} else if (!strcmp(argv[i], "thread")) {
			if (pthread_create(&t, 0, in_thread, 0) || pthread_join(t, 0))
				return 1;
		} else if (!strcmp(argv[i], "fork")) {
			if (!fork()) {
				in_thread(0);
				_exit(0);
			}
			wait(0);
		} else if (run_library(argv[i])) {
			return 1;
		}
	}
	return 0;
}
#endif
