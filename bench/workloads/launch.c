/* Runs a program and tells what it took:
 *
 *	launch OUTPUT CPUS DIRECTORY [NAME=VALUE...] -- PROGRAM ARGS...
 *
 * CPUS is a list like 0,1, or - for all. OUTPUT gets one line: wall ns, CPU us,
 * peak memory in KiB, wait status. CPU time and memory include the processes
 * that PROGRAM has waited for.
 *
 * A program of its own: a process's peak memory is at least that of the process
 * that it was forked from, and a Go program is large. The variables are set in
 * PROGRAM only, so that a library to preload is not loaded here. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void pin(char *list) {
	cpu_set_t set;
	CPU_ZERO(&set);
	for (char *cpu = strtok(list, ","); cpu; cpu = strtok(NULL, ","))
		CPU_SET(atoi(cpu), &set);
	if (sched_setaffinity(0, sizeof set, &set) != 0)
		perror("launch: sched_setaffinity"), exit(125);
}

static pid_t child;
static void forward(int number) {
	if (child > 0)
		kill(child, number);
}

int main(int argc, char **argv) {
	int at = 4;
	while (at < argc && strcmp(argv[at], "--") != 0)
		at++;
	if (at + 1 >= argc)
		return 125;
	if (strcmp(argv[2], "-") != 0)
		pin(argv[2]);
	signal(SIGTERM, forward);
	pid_t parent = getpid();
	long long start = now();
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent || chdir(argv[3]) != 0)
			_exit(125);
		for (int i = 4; i < at; i++)
			putenv(argv[i]);
		execvp(argv[at + 1], argv + at + 1);
		perror(argv[at + 1]);
		_exit(127);
	}
	int status;
	struct rusage used;
	while (wait4(child, &status, 0, &used) != child)
		;
	long long wall = now() - start;
	long long cpu = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000LL + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
	FILE *f = fopen(argv[1], "w");
	if (!f || fprintf(f, "%lld %lld %ld %d\n", wall, cpu, used.ru_maxrss, status) < 0 || fclose(f) != 0)
		return 125;
	return 0;
}
