/* Something for bad circumstances to happen to. It says what it does on both
 * outputs and ends with status 3.
 *   victim FILE        makes FILE, too: so one sees that it ran
 *   victim fill FILE   fills FILE's file system, then works in many threads */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

int fibonacci(int n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

int with_branches(const char *s)
{
	int n = 0;
	for (; *s; s++)
		switch (*s) {
		case 'a': n += 1; break;
		case 'b': n *= 2; break;
		case 'c': n -= 3; break;
		case 'd': n ^= 4; break;
		default: n += *s % 7;
		}
	return n;
}

static void *work(void *sum)
{
	__atomic_fetch_add((int *)sum, fibonacci(12), __ATOMIC_RELAXED);
	return 0;
}

static int fill(const char *path)
{
	static char block[4096];
	int fd = open(path, O_CREAT | O_WRONLY, 0600), sum = 0;
	for (size_t n = sizeof block; n; n /= 2)
		while (write(fd, block, n) > 0)
			;
	close(fd);
	pthread_t threads[300];
	for (int i = 0; i < 300; i++)
		if (pthread_create(&threads[i], 0, work, &sum))
			return 1;
	for (int i = 0; i < 300; i++)
		pthread_join(threads[i], 0);
	return sum;
}

int main(int argc, char **argv)
{
	fprintf(stderr, "on stderr\n");
	if (argc == 2)
		close(open(argv[1], O_CREAT | O_WRONLY, 0600));
	if (argc == 3)
		printf("threads %d\n", fill(argv[2]));
	if (getauxval(AT_SECURE))
		printf("privileged\n");
	printf("%d %d\n", fibonacci(15), with_branches("abracadabra"));
	return 3;
}
