/* Moves, cuts and grows mappings of the file that is named, in six threads, beside mappings of none which
 * take the places that these leave, and beside a thread that uses what stays; it says how many loads and
 * stores were to what was of the file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, THREADS = 6, ROUNDS = 60 };

static int file, ended;
static long loads, stores; /* that have to be recorded */

static void use(char *at, long bytes, int is)
{
	volatile short *p = (volatile short *)at;
	for (long i = 0; i < bytes / 64; i++) {
		p[i * 32] = (short)i;
		(void)p[i * 32];
	}
	if (is) {
		__atomic_fetch_add(&loads, bytes / 64, __ATOMIC_RELAXED);
		__atomic_fetch_add(&stores, bytes / 64, __ATOMIC_RELAXED);
	}
}

static char *map(long size, int fd, long offset)
{
	char *p = mmap(0, size, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, offset);
	if (p == MAP_FAILED)
		abort();
	return p;
}

static char *move(char *p, long from, long to, int flags, char *at)
{
	char *q = mremap(p, from, to, flags, at);
	if (q == MAP_FAILED)
		abort();
	return q;
}

static void *rounds(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		long size = PAGE * (1 + i % 5);
		char *p = map(size, file, 0);
		use(p, size, 1);
		if (i % 2) {
			p = move(p, size, 2 * size, MREMAP_MAYMOVE, 0);
			use(p, size *= 2, 1);
		}
		if (i % 3 == 0) {
			p = move(p, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, map(size, -1, 0));
			use(p, size, 1);
		}
		char *none = map(size, -1, 0);
		use(none, size, 0);
		if (mremap(p, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, p) != MAP_FAILED) /* onto itself: it fails */
			abort();
		use(p, size, 1);
		if (i % 7 == 0) {
			char *more = move(p, 0, size, MREMAP_MAYMOVE, 0); /* another one of the same */
			use(more, size, 1);
			munmap(more, size);
		}
		if (size > PAGE) {
			p = move(p, size, size - PAGE, i % 4 ? MREMAP_MAYMOVE : 0, 0);
			use(p, size -= PAGE, 1);
		}
		munmap(p, size);
		use(none, size, 0);
		munmap(none, size);
	}
	return unused;
}

/* What stays is used all the time. */
static char *stays;
static void *uses(void *unused)
{
	while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE))
		use(stays, PAGE, 1), usleep(50);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t t[THREADS], user;
	if (argc < 2 || (file = open(argv[1], O_RDWR)) < 0)
		return 1;
	char *room = mmap(0, 8 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stays = mmap(room, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
	munmap(room + PAGE, 4 * PAGE);
	if (stays != room || pthread_create(&user, 0, uses, 0) != 0)
		return 1;
	for (int i = 0; i < 60; i++) { /* larger where it is, and smaller again */
		if (mremap(stays, PAGE, 3 * PAGE, 0) == stays) {
			use(stays + PAGE, 2 * PAGE, 1);
			if (munmap(stays + 2 * PAGE, PAGE) != 0 || mremap(stays, 2 * PAGE, PAGE, 0) != stays)
				return 1;
		}
	}
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], 0, rounds, 0) != 0)
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], 0);
	__atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
	pthread_join(user, 0);
#ifdef SYS_mseal
	enum { MSEAL = SYS_mseal };
#else
	enum { MSEAL = 462 };
#endif
	char *sealed = map(2 * PAGE, file, 0);
	if (syscall(MSEAL, sealed, 2 * PAGE, 0) == 0) { /* it stays, whatever is asked for */
		if (munmap(sealed, 2 * PAGE) == 0 || munmap(sealed + PAGE, PAGE) == 0 || mremap(sealed, 2 * PAGE, PAGE, 0) != MAP_FAILED)
			return 1;
		use(sealed, 2 * PAGE, 1);
	}
	printf("%ld %ld\n", loads, stores);
	return 0;
}
