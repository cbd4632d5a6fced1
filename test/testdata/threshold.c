/* Threads that cross a threshold in a way that is known. The arguments: what
 * to do, and the threshold. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "pin.h"
#include "tally.h"

enum { THREADS = 4, FUNCTIONS = 12 };

static int threshold;
static pthread_barrier_t round_end;

#define F(n) OWN static int step_##n(int x) { ENTER; return x * 5 + n; }
F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#undef F
#define F(n) step_##n,
static int (*const step[FUNCTIONS])(int) = {F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)};
#undef F

OWN static void step_all(void)
{
	ENTER;
	for (int i = 0; i < FUNCTIONS; i++)
		step[i](i);
}

/* Nobody begins a round before all have ended the last one. */
OWN static void *lockstep(void *arg)
{
	ENTER;
	pin((int)(long)arg);
	for (int i = 0; i < threshold + 3; i++) {
		step_all();
		pthread_barrier_wait(&round_end);
	}
	return 0;
}

/* As fast as they can. */
OWN static void *freely(void *arg)
{
	ENTER;
	pin((int)(long)arg);
	pthread_barrier_wait(&round_end);
	for (int i = 0; i < 3 * threshold; i++)
		step_all();
	return 0;
}

/* One after the other, up to one call below the threshold, and then one more. */
OWN static void *in_turn(void *arg)
{
	ENTER;
	pin((int)(long)arg);
	for (int turn = 0; turn < 2 * THREADS; turn++) {
		if (turn == (long)arg)
			for (int i = 0; i < threshold - 1; i++)
				step_all();
		if (turn == THREADS + (long)arg)
			step_all();
		pthread_barrier_wait(&round_end);
	}
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t t[THREADS];
	if (argc < 3)
		return 2;
	threshold = atoi(argv[2]);
	void *(*f)(void *) = !strcmp(argv[1], "lockstep") ? lockstep : !strcmp(argv[1], "freely") ? freely : in_turn;
	pthread_barrier_init(&round_end, 0, THREADS);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&t[i], 0, f, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], 0);
	return 0;
}
