// Calls functions as often as it is asked to: "a 1000" calls step_a 1000 times, "t 1000"
// step_a in a thread that stays, anything else ends it with status 3.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int sink;
__attribute__((noinline, noclone)) void step_a(void) { sink++; }
__attribute__((noinline, noclone)) void step_b(void) { sink += 2; }
__attribute__((noinline, noclone)) void step_c(void) { sink += 3; }

static long many;
static void *thread(void *done) {
	for (long i = 0; i < many; i++)
		step_a();
	*(volatile int *)done = 1;
	for (;;)
		pause();
}

int main(void) {
	char what;
	while (scanf(" %c %ld", &what, &many) == 2) {
		volatile int done = 0;
		pthread_t t;
		if (what == 't') {
			pthread_create(&t, NULL, thread, (void *)&done);
			while (!done)
				usleep(1000);
		} else
			for (long i = 0; i < many; i++)
				what == 'a' ? step_a() : what == 'b' ? step_b() : step_c();
		printf("done\n");
		fflush(stdout);
	}
	exit(3);
}
