/* A program that executes those that its arguments name, without arguments, in each way, the last
 * one in its own place. One without arguments works. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

__attribute__((noinline)) int work(int x)
{
	__asm__ volatile("");
	return x * 3;
}

static void *executes(void *path)
{
	char *argv[] = {path, 0};
	execve(path, argv, environ);
	_exit(100);
}

enum { BY_FD = 4, BY_FD_PATH, BY_PROC, BY_MEMORY, WAYS };

/* A copy in memory, which has no name. */
static int in_memory(const char *path)
{
	char data[4096];
	int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("copy", MFD_CLOEXEC);
	for (ssize_t n; (n = read(from, data, sizeof data)) > 0;)
		if (write(to, data, n) != n)
			_exit(101);
	return to;
}

/* Executes what a descriptor leads to. */
static void by_descriptor(char *path, int way)
{
	char *argv[] = {path, 0}, name[64];
	int fd = way == BY_MEMORY ? in_memory(path) : open(path, (way == BY_FD_PATH ? O_PATH : O_RDONLY) | O_CLOEXEC);
	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	if (way == BY_PROC)
		execve(name, argv, environ);
	else if (way == BY_FD_PATH)
		syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH);
	else
		fexecve(fd, argv, environ);
	_exit(100);
}

static pid_t begins(char *path, int way)
{
	char *argv[] = {path, 0};
	pid_t pid = 0;
	pthread_t thread;
	if (way >= BY_FD) {
		if (!(pid = fork()))
			by_descriptor(path, way);
		return pid;
	}
	switch (way) {
	case 0:
		if (!(pid = fork()))
			executes(path);
		return pid;
	case 1:
		if (!(pid = vfork()))
			executes(path);
		return pid;
	case 2:
		return posix_spawn(&pid, path, 0, 0, argv, environ) ? -1 : pid;
	}
	if (!(pid = fork())) { /* by another thread than the first */
		pthread_create(&thread, 0, executes, path);
		for (;;)
			pause();
	}
	return pid;
}

/* Who was to be executed, and could not be, is not traced any more. */
static void fails(char *path)
{
	char *argv[] = {path, 0}, line[256];
	chmod(path, 0600);
	int got = execve(path, argv, environ);
	printf("%d %s\n", got, strerror(errno));
	chmod(path, 0700);
	FILE *f = fopen("/proc/self/status", "r");
	while (fgets(line, sizeof line, f))
		if (!strncmp(line, "TracerPid", 9))
			fputs(line, stdout);
	fclose(f);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int status = 0;
	if (argc == 1)
		for (int i = 0; i < 1000; i++)
			work(i);
	else
		fails(argv[1]);
	for (int i = 1; i < argc; i++)
		for (int way = 0; way < WAYS; way++) {
			pid_t pid = begins(argv[i], way);
			if (waitpid(pid, &status, 0) != pid || status != 7 << 8)
				printf("%s, way %d: status %d\n", argv[i], way, status);
			work(i);
		}
	fflush(stdout);
	if (argc > 1)
		executes(argv[argc - 1]);
	return 7;
}
