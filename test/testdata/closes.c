/* Closes every descriptor, and counts until the file of its first argument is
 * gone. */
#define _GNU_SOURCE
#include <unistd.h>

static long ticks;

__attribute__((noinline, noclone)) static void tick(void)
{
	ticks++;
	usleep(200);
}

int main(int argc, char **argv)
{
	if (argc != 2 || close_range(0, ~0U, 0) != 0)
		return 1;
	while (access(argv[1], F_OK) == 0)
		tick();
	return ticks == 0;
}
