/* One thread closes descriptors and looks whether they are closed - a lock is free, a
 * pipe's reader is at its end - while another loads a library over and over. A process
 * without a table of descriptors of its own copies up to 64 of them for a moment, so
 * these are above. "large": in a large process; "shared": shared memory is unmapped, too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

enum { LOADS = 12, ABOVE = 100 };
static volatile int done;
static void *volatile ballast;

static void *loads(void *path)
{
	for (int i = 0; i < LOADS; i++) {
		void *library = dlopen(path, RTLD_NOW);
		int (*work)(int) = library ? (int (*)(int))dlsym(library, "late_work") : 0;
		if (!work || work(10) < 0)
			exit(3);
		dlclose(library);
	}
	done = 1;
	return 0;
}

static int still_locked(int file)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	int fd = open(path, O_RDWR | O_CLOEXEC), busy = flock(fd, LOCK_EX | LOCK_NB) != 0;
	close(fd);
	return busy;
}

static int still_written(void)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		exit(4);
	close(ends[1]);
	struct pollfd end = {ends[0], POLLIN, 0};
	int open_yet = poll(&end, 1, 0) != 1 || !(end.revents & POLLHUP);
	close(ends[0]);
	return open_yet;
}

/* A file cannot be sealed while somebody may write to it. */
static int still_mapped(void)
{
	int file = memfd_create("", MFD_ALLOW_SEALING | MFD_CLOEXEC), segment = shmget(IPC_PRIVATE, 1, 0600);
	if (ftruncate(file, 1) != 0)
		exit(5);
	munmap(mmap(0, 1, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), 1);
	shmdt(shmat(segment, 0, 0));
	struct shmid_ds now;
	shmctl(segment, IPC_STAT, &now);
	shmctl(segment, IPC_RMID, 0);
	int busy = fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) != 0;
	close(file);
	return busy || now.shm_nattch;
}

int main(int argc, char **argv)
{
	int shared = argc > 2 && !strcmp(argv[argc - 1], "shared");
	if (argc > 2 && !strcmp(argv[2], "large"))
		ballast = memset(malloc(24 << 20), 1, 24 << 20);
	while (dup(0) < ABOVE)
		;
	int file = fileno(tmpfile());
	pthread_t thread;
	pthread_create(&thread, 0, loads, argv[1]);
	long locked = 0, written = 0, mapped = 0;
	do {
		locked += still_locked(file);
		written += still_written();
		mapped += shared && still_mapped();
	} while (!done);
	pthread_join(thread, 0);
	printf("still locked: %ld, written to: %ld, mapped: %ld\n", locked, written, mapped);
	return 0;
}
