/* Maps the file that is named first, and another one, in all ways, and makes accesses of two bytes to what
 * is mapped; it says how many loads and stores were to what was of the first file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

static int file;
static long loads, stores; /* that have to be recorded */

static void use(char *at, int reads, int writes, int is)
{
	volatile short *p = (volatile short *)at;
	for (int i = 0; i < reads; i++)
		(void)p[i];
	for (int i = 0; i < writes; i++)
		p[i] = (short)i;
	if (is) {
		__atomic_fetch_add(&loads, reads, __ATOMIC_RELAXED);
		__atomic_fetch_add(&stores, writes, __ATOMIC_RELAXED);
	}
}

static char *map(void *at, long size, int flags, int fd, long offset)
{
	char *p = mmap(at, size, PROT_READ | PROT_WRITE, flags, fd, offset);
	if (p == MAP_FAILED)
		_exit(1);
	return p;
}

static void *rounds(void *unused)
{
	for (int i = 0; i < 20; i++) {
		char *p = map(0, 2 * PAGE, i % 2 ? MAP_SHARED : MAP_PRIVATE, file, 0), *q = map(0, 2 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		use(p + PAGE - 100, 100, 100, 1);
		use(q, 100, 100, 0);
		munmap(p, 2 * PAGE);
		munmap(q, 2 * PAGE);
		p = map(0, 2 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* where it was, mostly */
		use(p, 100, 100, 0);
		munmap(p, 2 * PAGE);
	}
	return unused;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 1;
	file = open(argv[1], O_RDWR);
	int other = open(argv[2], O_RDWR);
	char *p = map(0, 4 * PAGE, MAP_SHARED, file, 0);
	for (int i = 0; argc > 3 && i < atoi(argv[3]); i++) /* and more of them than regions */
		use(map(0, PAGE, MAP_PRIVATE, file, 0), 1, 1, 1);
	if (argc > 3)
		return 0;
	use(p, 10, 5, 1);
	use(map(0, PAGE, MAP_PRIVATE, other, 0), 7, 7, 0);
	munmap(p + PAGE, PAGE); /* amid it */
	map(p + PAGE, PAGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	use(p + PAGE, 9, 9, 0);
	use(p, 1, 2, 1), use(p + 2 * PAGE, 3, 4, 1), use(p + 3 * PAGE, 3, 4, 1);
	if (munmap(p + 1, PAGE) == 0) /* it fails */
		return 1;
	use(p, 1, 1, 1);
	char *to = map(0, 4 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mremap(p + 2 * PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to + PAGE) != to + PAGE)
		return 1;
	use(to, 6, 6, 0), use(to + PAGE, 4, 4, 1), use(to + 2 * PAGE, 2, 2, 1), use(to + 3 * PAGE, 6, 6, 0);
	map(p + 2 * PAGE, PAGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	use(p + 2 * PAGE, 8, 8, 0), use(p + 3 * PAGE, 5, 5, 1);
	map(to + PAGE, PAGE, MAP_PRIVATE | MAP_FIXED, other, 0);
	use(to + PAGE, 9, 9, 0), use(to + 2 * PAGE, 2, 2, 1);
	char *again = (char *)syscall(SYS_mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE, file, PAGE);
	use(again, 3, 3, 1);
	if (mmap(again, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, -1, 0) != MAP_FAILED) /* it fails, too */
		return 1;
	use(again, 2, 2, 1);
	int report[2];
	if (pipe(report) != 0)
		return 1;
	pid_t child = fork();
	if (child == 0) {
		loads = stores = 0;
		munmap(again, PAGE);
		use(map(0, PAGE, MAP_SHARED, file, 0), 11, 12, 1);
		long said[] = {loads, stores};
		_exit(write(report[1], said, sizeof said) != sizeof said);
	}
	long said[2];
	int status;
	if (read(report[0], said, sizeof said) != sizeof said || waitpid(child, &status, 0) != child || status != 0)
		return 1;
	loads += said[0], stores += said[1];
	use(again, 1, 1, 1);
	pthread_t t[3];
	for (int i = 0; i < 3; i++)
		if (pthread_create(&t[i], 0, rounds, 0) != 0)
			return 1;
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], 0);
	printf("%ld %ld\n", loads, stores);
	return 0;
}
