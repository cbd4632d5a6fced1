/* Makes a program large, as copies of processes go; at its end it writes to the file
 * LARGE_SAYS how many mappings have LARGE_LOOKS_FOR in their line, how often it got
 * SIGCHLD, and whether it has children. It changes the time of the file LARGE_TOUCHES. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <utime.h>

static char *memory;
static volatile int signals;

static void on_child(int sig)
{
	(void)sig;
	signals++;
}

__attribute__((constructor)) static void grow(void)
{
	enum { SIZE = 16 << 20, PAGE = 4096 };
	struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART};
	sigaction(SIGCHLD, &action, 0);
	memory = malloc(SIZE);
	for (int i = 0; i < SIZE; i += PAGE)
		((volatile char *)memory)[i] = 1;
	if (getenv("LARGE_TOUCHES"))
		utime(getenv("LARGE_TOUCHES"), &(struct utimbuf){1, 1});
}

__attribute__((destructor)) static void say(void)
{
	const char *name = getenv("LARGE_SAYS"), *what = getenv("LARGE_LOOKS_FOR");
	char line[8192];
	int n = 0;
	if (!name || !what)
		return;
	FILE *maps = fopen("/proc/self/maps", "r"), *to = fopen(name, "w");
	while (maps && fgets(line, sizeof line, maps))
		n += strstr(line, what) != 0;
	fprintf(to, "%d %d %d", n, signals, waitpid(-1, 0, WNOHANG | __WALL) != -1);
	fclose(to);
}
