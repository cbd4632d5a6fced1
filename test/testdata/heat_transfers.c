/* Writes so many bytes, in calls of 1,000, and a page for each; reads them again; receives and sends
 * as many by a socket. With a third argument it kills itself. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EACH = 1000 };

static char room[EACH];

__attribute__((noinline)) static void fill(int i)
{
	for (int k = 0; k < EACH; k++)
		room[k] = (char)(i + k);
}

int main(int argc, char **argv)
{
	int n = atoi(argv[1]) / EACH, pair[2], file = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (file < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		return 1;
	for (int i = 0; i < n; i++) {
		fill(i);
		if (write(file, room, EACH) != EACH || send(pair[0], room, EACH, 0) != EACH || recv(pair[1], room, EACH, MSG_WAITALL) != EACH)
			return 2;
	}
	for (int i = 0; i < n; i++)
		if (pread(file, room, EACH, (off_t)i * EACH) != EACH)
			return 3;
	if (argc > 3)
		raise(SIGKILL);
	return 0;
}
