/* A program that counts to a number and comes to an end: argv[1] says which,
 * argv[2] how many calls of step before it. It keeps a tally of what comes on
 * top, in the file argv[3]. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OWN __attribute__((noinline, noclone))

OWN static int step(int x)
{
	__asm__ volatile("");
	return x + 1;
}

static int steps;
OWN static int count(void)
{
	int x = 0;
	for (int i = 0; i < steps; i++)
		x = step(x);
	return x;
}

static int *more;

/* Every level is a call; at the last there is no stack left. */
OWN static int sink(int x)
{
	volatile char room[64];
	room[x % 64] = (char)x;
	++*more;
	return sink(x + 1) + room[0];
}

OWN static void *in_thread(void *arg)
{
	count();
	if (arg)
		kill(getpid(), SIGKILL);
	return 0;
}

/* All the memory there may be, until malloc has none. */
OWN static void exhaust(void)
{
	struct rlimit most;
	getrlimit(RLIMIT_AS, &most);
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;
	if (!f || fscanf(f, "%lu", &pages) != 1)
		exit(9);
	fclose(f);
	most.rlim_cur = (pages << 12) + (8 << 20);
	setrlimit(RLIMIT_AS, &most);
	while (malloc(1 << 16)) {
		++*more;
		step(0);
	}
	abort();
}

int main(int argc, char **argv)
{
	const char *how = argc > 3 ? argv[1] : "";
	struct rlimit none = {0, 0};
	pthread_t t;
	setrlimit(RLIMIT_CORE, &none);
	steps = argc > 3 ? atoi(argv[2]) : 0;
	more = (int *)mmap(0, sizeof *more, PROT_READ | PROT_WRITE, MAP_SHARED, argc > 3 ? open(argv[3], O_RDWR) : -1, 0);
	if (more == MAP_FAILED)
		return 3;
	count();
	if (!strcmp(how, "return"))
		return 7;
	if (!strcmp(how, "_exit"))
		_exit(8);
	if (!strcmp(how, "exit_group"))
		syscall(SYS_exit_group, 6);
	if (!strcmp(how, "SIGKILL"))
		kill(getpid(), SIGKILL);
	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "trap"))
		__builtin_trap();
	if (!strcmp(how, "segv"))
		*(volatile int *)8 = 1;
	if (!strcmp(how, "overflow"))
		return sink(0);
	if (!strcmp(how, "memory"))
		exhaust();
	if (!strcmp(how, "thread")) { /* another thread ends the process */
		pthread_create(&t, 0, in_thread, argv);
		pthread_join(t, 0);
	}
	if (!strcmp(how, "last-thread")) { /* the process outlives its first thread */
		pthread_create(&t, 0, in_thread, 0);
		pthread_exit(0);
	}
	if (!strcmp(how, "exec"))
		execl("/bin/sh", "sh", "-c", "exit 5", (char *)0);
	if (!strcmp(how, "exec-self"))
		execl("/proc/self/exe", argv[0], "return", argv[2], argv[3], (char *)0);
	if (!strcmp(how, "exec-fails")) {
		execl("/nonexistent", "x", (char *)0);
		count();
		return 4;
	}
	return 2;
}
