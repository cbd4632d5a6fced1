/* How often SIGUSR1 comes: timeout -s USR1 1 ./grouped says 1, and
   timeout -s USR1 1 hotspots run -- ./grouped said 2 (docs/trials.md, Open 20). */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t came;

static void handler(int number)
{
	(void)number;
	came++;
}

int main(void)
{
	signal(SIGUSR1, handler);
	for (int i = 0; i < 20; i++)
		usleep(100000);
	printf("%d\n", came);
	return 0;
}
