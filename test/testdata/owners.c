/* Threads and processes one after the other, each with calls of its own number; or
 * as many threads as are asked for, with 100 each. Rows are used again. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) int step(int x)
{
	__asm__ volatile("");
	return x + 1;
}

static void *run(void *n)
{
	for (long i = 0; i < 100 * (long)n; i++)
		step(1);
	return 0;
}

static void one_thread(long n)
{
	pthread_t t;
	pthread_create(&t, 0, run, (void *)n);
	pthread_join(t, 0);
}

int main(int argc, char **argv)
{
	for (int n = argc > 1 ? atoi(argv[1]) : 0; n > 0; n--)
		one_thread(1);
	for (long n = 1; argc == 1 && n <= 60; n++)
		one_thread(n);
	for (int n = 1; argc == 1 && n <= 5; n++) {
		if (fork() == 0) {
			for (int i = 0; i < 10000 * n; i++)
				step(1);
			_exit(0);
		}
		wait(0);
	}
	return 0;
}
