/* Takes a record lock on its own file, executes itself, and has a child look whether the
 * lock is still there. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static int step(int n) { return n + 1; }

int main(int argc, char **argv)
{
	int fd = open("/proc/self/exe", O_RDONLY), status = 0, sum = 0;
	struct flock lock = {.l_type = argc < 2 ? F_RDLCK : F_WRLCK};
	if (argc < 2) {
		if (fcntl(fd, F_SETLK, &lock) != 0)
			return 2;
		execl("/proc/self/exe", argv[0], "again", (char *)0);
		return 3;
	}
	for (int i = 0; i < 100; i++)
		sum = step(sum);
	if (fork() == 0) {
		fcntl(fd, F_GETLK, &lock);
		_exit(lock.l_type == F_UNLCK);
	}
	wait(&status);
	printf("%d, the lock is %s\n", sum, status ? "gone" : "held");
	return 0;
}
