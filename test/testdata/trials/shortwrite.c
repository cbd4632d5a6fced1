/* A write to a pipe that waits in its middle, as its reader is slow: says how much was written.
 * Attach to it, or detach from it, within four seconds. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static char data[1000000];

int main(void)
{
	int p[2];
	if (pipe(p) != 0)
		return 1;
	if (fork() == 0) {
		char b[4096];
		close(p[1]);
		sleep(4);
		while (read(p[0], b, sizeof b) > 0)
			;
		_exit(0);
	}
	printf("%zd of %zu\n", write(p[1], data, sizeof data), sizeof data);
	close(p[1]);
	wait(0);
	return 0;
}
