/* Has 60 blocks of the 100 that it asked for, of 1,000 bytes each, and waits for its end. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *volatile all[100];
__attribute__((noinline)) static void waits(void)
{
	for (int i = 0; i < 100; i++)
		all[i] = malloc(1000);
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	waits();
	for (int i = 0; i < 40; i++)
		free(all[i]);
	printf("pid %d\n", (int)getpid());
	for (;;) {
		usleep(10000);
		*(char *)all[99] = 1;
	}
}
