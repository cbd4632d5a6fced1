/* Takes a record lock on its own file, executes itself, or with "text" makes its text
 * writable, and has a child look whether the lock is still there. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline, noclone)) int step(int n)
{
	__asm__ volatile("");
	return n + 1;
}

int main(int argc, char **argv)
{
	int first = open("/proc/self/exe", O_RDONLY), status = 0, sum = 0;
	int fd = fcntl(first, F_DUPFD, 700); /* not among the first that somebody may look at */
	close(first);
	struct flock lock = {.l_type = F_RDLCK};
	int text = argc > 1 && strcmp(argv[1], "text") == 0;
	if ((argc < 2 || text) && fcntl(fd, F_SETLK, &lock) != 0)
		return 2;
	if (argc < 2) {
		execl("/proc/self/exe", argv[0], "again", (char *)0);
		return 3;
	}
	if (text && mprotect((void *)((uintptr_t)step & -4096UL), 4096, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
		return 4;
	lock.l_type = F_WRLCK;
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
