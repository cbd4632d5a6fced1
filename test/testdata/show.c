/* Functions with strings, imports, a table of names and pointers, callers and threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNTED __attribute__((noinline, noclone))

COUNTED int grow(const char *text, int n)
{
	if (n > 1000)
		fprintf(stderr, "too large: %s\n", text);
	return (int)strlen(text) + n;
}

COUNTED int open_door(const char *what) { return grow(what, 1) * 3; }
COUNTED int close_door(const char *what) { return grow(what, 2) * 5; }

static const struct {
	const char *name;
	int (*run)(const char *);
} commands[] = { { "open", open_door }, { "close", close_door } };

static int times = 10;

static void *work(void *arg)
{
	int sum = 0;
	for (int i = 0; i < times; i++)
		sum += commands[i % 2].run(arg);
	return (void *)(long)sum;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	if (argc > 1)
		times = atoi(argv[1]);
	pthread_create(&thread, NULL, work, "a thread's");
	work("main's");
	pthread_join(thread, NULL);
	if (argc > 2) {
		puts("ready");
		fflush(stdout);
		getchar(); /* until nobody writes any more */
	}
	return 0;
}
