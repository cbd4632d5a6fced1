/* Executes a program in its place, in the way that is named, and with arguments that it is
 * refused. The last one shows what it was given, and calls step a hundred times. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

__attribute__((noipa)) static int step(int i) { __asm__ volatile("nop; nop; nop; nop; nop"); return i + 1; }
__attribute__((noipa)) static int before(int i) { __asm__ volatile("nop; nop; nop; nop; nop"); return i + 2; }

static int show(char **argv)
{
	int n = 0;
	for (int i = 0; argv[i]; i++)
		printf("argument %s\n", argv[i]);
	for (char **e = environ; *e; e++)
		if (strncmp(*e, "_=", 2) != 0)
			printf("%s\n", strlen(*e) < 300 ? *e : "a long one");
	for (int i = 0; i < 100; i++)
		n = step(n);
	fflush(stdout);
	return n == 100 ? 7 : 1;
}

static char **args, *file;

static void *in_thread(void *unused)
{
	execve(file, args, environ);
	return unused;
}

static void refused(const char *what, long result)
{
	printf("%s: %ld, %s\n", what, result, strerror(errno));
	fflush(stdout);
}

/* None of these is executed, and each is refused as it would be. */
static void refusals(void)
{
	char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(page + 4096, 4096, PROT_NONE);
	char **edge = (char **)(page + 4096 - 8);
	*edge = "A=1";
	refused("no such file", execve("/nosuch", args, environ));
	refused("a directory", execve("/", args, environ));
	refused("bad path", execve((char *)8, args, environ));
	refused("bad environment", execve(file, args, (char **)8));
	refused("no end", execve(file, args, edge));
	char *bad[] = {"A=1", (char *)8, 0};
	refused("bad entry", execve(file, args, bad));
	char *cut = page + 4096 - 6;
	memcpy(cut, "LD_PRE", 6);
	char *open_end[] = {cut, 0};
	refused("entry without end", execve(file, args, open_end));
	refused("flags", syscall(SYS_execveat, AT_FDCWD, file, args, environ, -1));
	size_t huge = 3 << 20;
	char *large = malloc(huge + 1);
	memset(large, 'x', huge);
	large[huge] = 0;
	large[1] = '=';
	char *too_large[] = {large, 0};
	refused("too large", execve(file, args, too_large));
}

/* As many bytes of environment as there may be: with one more entry it is refused. */
static void fill_up(void)
{
	enum { EACH = 100 << 10 };
	for (int i = 0; i < 19; i++) {
		char name[32], *text = malloc(EACH);
		memset(text, 'x', EACH);
		text[EACH - 1] = 0;
		snprintf(name, sizeof name, "FULL%d", i);
		setenv(name, text, 1);
	}
	for (int n = 120000; n > 16; n = n > 2000 ? n - 1000 : n - 16) {
		char *text = malloc((size_t)n);
		memset(text, 'x', (size_t)n - 1);
		text[n - 1] = 0;
		setenv("LAST", text, 1);
		execve(file, args, environ);
		if (errno != E2BIG)
			refused("full", errno);
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "show";
	int n = 0, status;
	if (strcmp(how, "show") == 0)
		return show(argv);
	for (int i = 0; i < 50; i++)
		n = before(n);
	file = argv[2];
	args = argv + 2;
	if (strcmp(how, "execve") == 0) {
		execve(file, args, environ);
	} else if (strcmp(how, "search") == 0) {
		setenv("PATH", "/nosuch:/:/etc:/bin:/usr/bin", 1);
		execvp(file, args);
	} else if (strcmp(how, "none") == 0) {
		execve(file, args, 0);
	} else if (strcmp(how, "preload") == 0) {
		setenv("LD_PRELOAD", "libm.so.6", 1);
		execve(file, args, environ);
	} else if (strcmp(how, "empty") == 0) {
		setenv("LD_PRELOAD", "", 1);
		execve(file, args, environ);
	} else if (strcmp(how, "spaces") == 0) {
		setenv("LD_PRELOAD", "libm.so.6 libdl.so.2", 1);
		execve(file, args, environ);
	} else if (strcmp(how, "twice") == 0) { /* of which the last one counts for the dynamic linker */
		char *list[] = {"LD_PRELOAD=libm.so.6", "A=1", "LD_PRELOAD=libdl.so.2", 0};
		execve(file, args, list);
	} else if (strcmp(how, "many") == 0) { /* more variables than are looked at */
		enum { MANY = 140000 };
		char **list = calloc(MANY + 1, sizeof *list);
		for (int i = 0; i < MANY; i++)
			list[i] = "A";
		execve(file, args, list);
	} else if (strcmp(how, "at") == 0) {
		char dir[4096];
		strcpy(dir, file);
		*strrchr(dir, '/') = 0;
		syscall(SYS_execveat, open(dir, O_PATH | O_CLOEXEC), strrchr(file, '/') + 1, args, environ, 0);
	} else if (strcmp(how, "descriptor") == 0) {
		fexecve(open(file, O_RDONLY | O_CLOEXEC), args, environ);
	} else if (strcmp(how, "thread") == 0) {
		pthread_t t;
		pthread_create(&t, 0, in_thread, 0);
		pthread_join(t, 0);
	} else if (strcmp(how, "children") == 0) {
		pid_t child;
		if ((child = fork()) == 0)
			execve(file, args, environ);
		waitpid(child, &status, 0);
		if ((child = vfork()) == 0) {
			execve("/nosuch", args, environ);
			execve(file, args, environ);
			_exit(1);
		}
		waitpid(child, &status, 0);
		posix_spawn(&child, file, 0, 0, args, environ);
		waitpid(child, &status, 0);
		printf("%d\n", WEXITSTATUS(status));
		return 3;
	} else if (strcmp(how, "refused") == 0) {
		refusals();
		execve(file, args, environ);
	} else if (strcmp(how, "full") == 0) {
		fill_up();
	}
	perror(file);
	return 1;
}
