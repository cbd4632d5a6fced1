/* Threads, each with its name, make accesses to a table: "TID NAME LOADS STORES" is said of each. With
 * an argument they go on until standard input ends. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memtr.h"

static volatile int table[16], on = 1;
static pthread_mutex_t saying = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *p)
{
	long k = (long)p, loads = 100 * k, stores = 70 * k;
	char name[16];
	snprintf(name, sizeof name, "worker %ld", k);
	prctl(PR_SET_NAME, name);
	int rounds = 3000;
	do {
		for (int i = 0; i < loads; i++)
			(void)table[k];
		for (int i = 0; i < stores; i++)
			table[k] = i;
		if (on != 1)
			usleep(10000);
	} while (on != 1 && --rounds);
	memtr_end(); /* so that somebody has seen it while it has its name */
	pthread_mutex_lock(&saying);
	printf("%ld %s %ld %ld\n", syscall(SYS_gettid), name, loads, stores);
	pthread_mutex_unlock(&saying);
	return 0;
}

int main(int argc, char **argv)
{
	enum { THREADS = 3 };
	pthread_t t[THREADS];
	(void)argv;
	if (memtr_regist((void *)table, sizeof table) != 0)
		return 1;
	on = argc > 1 ? 2 : 1;
	for (long k = 1; k <= THREADS; k++)
		if (pthread_create(&t[k - 1], 0, work, (void *)k) != 0)
			return 1;
	if (argc > 1) {
		puts("begun");
		fflush(stdout);
		getchar();
		on = 1;
	}
	for (int k = 0; k < THREADS; k++)
		pthread_join(t[k], 0);
	return 0;
}
