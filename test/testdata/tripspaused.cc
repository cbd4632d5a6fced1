/* Loops that counting is paused in, and goes on in again: by themselves, at trips that are
 * known; by main, while threads go through them. Each execution has TRIPS trips. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dynprof.h"
#include "pin.h"

#define OWN __attribute__((noipa))

enum { TRIPS = 10, THREADS = 4, PAUSES = 40 };

static volatile int off_at, on_at;
static thread_local volatile int sink;

extern "C" {
OWN void turn(int i)
{
	if (i == off_at && dynprof_pause() < 0)
		puts("pause");
	if (i == on_at && dynprof_resume() < 0)
		puts("resume");
	sink = i;
}

OWN void around()
{
	int i = 0;
	do
		turn(i);
	while (++i < TRIPS);
}

OWN void leaf(int i) { sink = i; }

OWN void calls()
{
	int i = 0;
	do
		leaf(i);
	while (++i < TRIPS);
}

OWN void nested()
{
	for (int k = 0; k < TRIPS; k++) {
		int i = 0;
		do {
			__asm__ volatile("" : "+r"(i));
			if (i == 5)
				leaf(i);
		} while (++i < TRIPS);
	}
}
}

static int rounds;
static pthread_barrier_t begin;

static void *thread(void *n)
{
	pin((int)(long)n);
	pthread_barrier_wait(&begin);
	for (int i = 0; i < rounds; i++) {
		calls();
		nested();
	}
	return 0;
}

static void in_threads()
{
	pthread_t threads[THREADS];
	pthread_barrier_init(&begin, 0, THREADS + 1);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], 0, thread, (void *)i);
	pthread_barrier_wait(&begin);
	for (int i = 0; i < PAUSES; i++)
		if (dynprof_pause() < 0 || dynprof_resume() < 0)
			puts("refused");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], 0);
}

/* OFF ON NUMBER: how often a loop is gone through in which counting ends behind the call of trip
 * OFF, and goes on behind that of trip ON. */
int main(int argc, char **argv)
{
	for (int i = 1; i + 2 < argc; i += 3) {
		off_at = atoi(argv[i]);
		on_at = atoi(argv[i + 1]);
		for (int k = 0; k < atoi(argv[i + 2]); k++)
			around();
		if (dynprof_resume() < 0)
			puts("resume");
	}
	if (argc == 2) {
		rounds = atoi(argv[1]);
		in_threads();
	}
}
