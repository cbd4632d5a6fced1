/* Recursion that needs more stack than a thread has, which -fsplit-stack gives it. */
#include <pthread.h>
#include <stdio.h>

__attribute__((noipa)) static long deep(long n)
{
	volatile char room[2000];
	room[0] = (char)n;
	return n == 0 ? 0 : deep(n - 1) + n + 0 * room[0];
}

static void *thread(void *arg) { return (void *)deep((long)arg); }

int main(void)
{
	pthread_attr_t attr;
	pthread_t t;
	void *sum;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	pthread_create(&t, &attr, thread, (void *)200L);
	pthread_join(t, &sum);
	printf("%ld %ld\n", (long)sum, deep(200));
	return 0;
}
