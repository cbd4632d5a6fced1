/* A child is stopped while it adds a library to the table: the argument is where that is,
 * and where in it the word is that says who adds. What another child loads meanwhile has
 * to load. Says how often each library's late_work(10) was called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int load(int n, char **libraries)
{
	for (int i = 0; i < n; i++) {
		void *library = dlopen(libraries[i], RTLD_NOW);
		int (*work)(int) = library ? (int (*)(int))dlsym(library, "late_work") : 0;
		if (!work)
			return 2;
		work(10);
	}
	return 0;
}

static pid_t child(int n, char **libraries)
{
	pid_t pid = fork();
	if (pid == 0) {
		alarm(60);
		_exit(load(n, libraries));
	}
	return pid;
}

static int ended(pid_t pid)
{
	int status;
	return waitpid(pid, &status, 0) == pid && status == 0;
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDONLY), n = argc - 3, rounds = 0, good = 1;
	const char *table = fd < 0 ? MAP_FAILED : mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
	const volatile uint32_t *adds = (const volatile uint32_t *)(table + strtoul(argv[2], 0, 0));
	if (fd >= 0 && table == MAP_FAILED)
		return 3;
	srand(1);
	for (int i = 0; i < 500 && good; i++) {
		int status, met;
		pid_t stopped = child(n, argv + 3);
		rounds++;
		usleep((useconds_t)(rand() % 20000));
		kill(stopped, SIGSTOP);
		if (waitpid(stopped, &status, WUNTRACED) == stopped && !WIFSTOPPED(status))
			continue; /* too late */
		met = fd >= 0 && *adds != 0;
		if (met || fd < 0) {
			rounds++;
			good &= ended(child(n, argv + 3));
		}
		kill(stopped, SIGCONT);
		good &= ended(stopped);
		if (met || fd < 0)
			break;
	}
	fprintf(stderr, "%d\n", rounds);
	puts(good ? "all loaded" : "not all loaded");
	return !good;
}
