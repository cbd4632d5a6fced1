/* How long somebody who spins was not running, at most, since he was last asked. Arguments:
 * threads. The functions that others call are made by the test: 48,000 of them. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

extern uint64_t (*const functions[])(uint64_t, int);
extern const uint32_t functions_count;

static uint64_t longest;

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void *spin(void *arg)
{
	(void)arg;
	for (uint64_t last = now(), t;; last = t) {
		t = now();
		if (t - last > __atomic_load_n(&longest, __ATOMIC_RELAXED))
			__atomic_store_n(&longest, t - last, __ATOMIC_RELAXED);
	}
	return 0;
}

static void *work(void *arg)
{
	for (uint64_t x = (uint64_t)arg;; usleep(20000)) {
		x = functions[x % functions_count](x, 6);
		if (x == 1)
			return 0;
	}
}

int main(int argc, char **argv)
{
	char line[16];
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 << 10);
	for (long i = argc > 1 ? atoi(argv[1]) - 2 : 8; i >= 0; i--) {
		pthread_t t;
		if (pthread_create(&t, &small, i ? work : spin, (void *)i) != 0)
			return 1;
	}
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		printf("%llu\n", (unsigned long long)__atomic_exchange_n(&longest, 0, __ATOMIC_RELAXED));
		fflush(stdout);
	}
	_exit(0);
}
