/* Touches a page of those at 0x200000000000, by a number that it is given, and executes itself in its
 * place, in the way that is named, with other numbers: to know whose page which is. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 128, REFUSED = 50, CHILD = 70 };

static volatile unsigned char *base;

__attribute__((noinline)) static void touch(int page) { base[page * PAGE] = 1; }

static char *self;

static void go_on(const char *how, int page)
{
	char number[16];
	snprintf(number, sizeof number, "%d", page);
	execl(self, self, how, number, (char *)0);
}

static void *in_thread(void *unused)
{
	go_on("chain", 0);
	return unused;
}

/* None of these is executed. */
static void refusals(void)
{
	char *args[] = {"no", 0}, *bad[] = {(char *)8, 0};
	execv("/nosuch", args);
	execv("/", args);
	execv(self, bad);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const char *how = argv[1];
	int page = atoi(argv[2]), ends[2];
	pthread_t thread;
	char c;
	self = argv[0];
	base = mmap((void *)0x200000000000, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (base == MAP_FAILED)
		return 2;
	touch(page % PAGES);
	if (strcmp(how, "chain") == 0 && page > 0)
		go_on(how, page - 1);
	if (strcmp(how, "thread") == 0 && pthread_create(&thread, 0, in_thread, 0) == 0)
		pthread_join(thread, 0);
	if (strcmp(how, "refused") == 0 || strcmp(how, "stays") == 0) {
		refusals();
		touch(REFUSED);
	}
	if (strcmp(how, "refused") == 0)
		go_on("chain", 0);
	if (strcmp(how, "killed") == 0)
		go_on("kill", 0);
	if (strcmp(how, "kill") == 0)
		raise(SIGKILL);
	if (strcmp(how, "forks") == 0 && pipe2(ends, O_CLOEXEC) == 0) {
		if (fork() == 0) {
			close(ends[1]);
			if (read(ends[0], &c, 1) == 0) /* its parent goes on as another */
				touch(CHILD);
			exit(0);
		}
		go_on("waits", 0);
	}
	if (strcmp(how, "waits") == 0)
		while (wait(0) > 0)
			;
	puts("done");
	return 0;
}
