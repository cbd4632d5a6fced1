/* Somebody attaches while it executes itself, or ends. Arguments: how often it executes itself
 * yet, and a sum; with "thread" behind them another thread than the first does so. Each time threads
 * work meanwhile; the last prints the sum of all, and ends with status 7 from a destructor's work on.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline)) uint64_t mix(uint64_t x) { return x * 6364136223846793005u + 1442695040888963407u; }

static void *work(void *unused)
{
	volatile uint64_t x = 1;
	for (;;)
		x = mix(x);
	return unused;
}

static uint64_t some(uint64_t x, int n)
{
	while (n--)
		x = mix(x);
	return x;
}

static uint64_t sum;

__attribute__((destructor)) static void late(void)
{
	printf("%llu\n", (unsigned long long)some(sum, 20000000));
	fflush(stdout);
}

static char *own, left[24], said[24], *more;

static void *again(void *unused)
{
	execl("/proc/self/exe", own, left, said, more, (char *)0);
	_exit(3);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t t;
	if (argc < 3)
		return 2;
	int n = atoi(argv[1]);
	own = argv[0], more = argv[3];
	sum = some(strtoull(argv[2], 0, 10), 20000000);
	for (int i = 0; i < 3; i++)
		pthread_create(&t, 0, work, 0);
	if (n) {
		snprintf(left, sizeof left, "%d", n - 1);
		snprintf(said, sizeof said, "%llu", (unsigned long long)sum);
		if (!more)
			again(0);
		pthread_create(&t, 0, again, 0);
		for (;;)
			pause();
	}
	return 7;
}
