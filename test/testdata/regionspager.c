/* Maps its memory as it faults, in a handler whose alternate stack is a region that is audited,
 * "alternate". As many signals as the first argument says, which have no effect, come at once, as the
 * handler lets them in. Says how often the handler was called, once for each page, and how many
 * SIGCHLD came, though there are no children. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 16, SIZE = 4096 };

char alternate[65536] __attribute__((aligned(4096)));
static char *memory;
static volatile int faults, children;

static void crowd(int how)
{
	sigset_t all;
	sigemptyset(&all);
	sigaddset(&all, SIGRTMIN + 1);
	sigprocmask(how, &all, 0);
}

static void fault(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	uintptr_t at = (uintptr_t)info->si_addr - (uintptr_t)memory;
	if (at >= PAGES * SIZE)
		_exit(3);
	if (faults++ == 4)
		crowd(SIG_UNBLOCK);
	mprotect(memory + at / SIZE * SIZE, SIZE, PROT_READ | PROT_WRITE);
}

static void child(int sig) { (void)sig, children++; }

int main(int argc, char **argv)
{
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
	struct sigaction on = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK}, told = {.sa_handler = child};
	memory = mmap(0, PAGES * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || sigaltstack(&stack, 0) || sigaction(SIGSEGV, &on, 0) || sigaction(SIGCHLD, &told, 0))
		return 2;
	signal(SIGRTMIN + 1, SIG_IGN);
	crowd(SIG_BLOCK);
	for (int i = argc > 1 ? atoi(argv[1]) : 0; i > 0; i--)
		sigqueue(getpid(), SIGRTMIN + 1, (union sigval){0});
	for (int i = 0; i < PAGES; i++)
		memory[i * SIZE + i] = 1;
	printf("%d faults, %d children\n", faults, children);
	return 0;
}
