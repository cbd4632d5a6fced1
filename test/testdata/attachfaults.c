/* A thread comes to instructions that fault, over and over: a function's first, and one behind
 * that. The handler takes its time, and has the thread go on behind the instruction.
 * A line ends it; it says then how often a function returned something else. With an argument the
 * handler returns by the program's own restorer, and is not asked for a siginfo_t.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

int first(int x), second(int x);
__asm__(".text\n.p2align 4\n.globl first\n.type first, @function\n"
	"first:\n.cfi_startproc\n"
	"	ud2\n"
	"	lea	1(%rdi), %eax\n"
	"	ret\n"
	".cfi_endproc\n.size first, . - first\n"
	".p2align 4\n.globl second\n.type second, @function\n"
	"second:\n.cfi_startproc\n"
	"	mov	%edi, %eax\n"
	"	ud2\n"
	"	add	$2, %eax\n"
	"	ret\n"
	".cfi_endproc\n.size second, . - second\n");

enum { UD2_SIZE = 2, TIME = 3000, WORKS = 10000 };

static volatile int ends;
static int wrong;

static void handler(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	for (volatile int i = 0; i < TIME; i++) {}
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += UD2_SIZE;
}

static void *faults(void *arg)
{
	for (int i = 0; !ends; i++) {
		wrong += first(i) != i + 1;
		wrong += second(i) != i + 2;
		for (volatile int j = 0; j < WORKS; j++) {}
	}
	return arg;
}

void restorer(void);
__asm__("restorer: mov $15, %rax; syscall");

static void handle(int own)
{
	struct { void (*handler)(int, siginfo_t *, void *); unsigned long flags; void (*restorer)(void); unsigned long mask; } raw = {handler, 0x04000000, restorer, 0};
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	if (own)
		syscall(SYS_rt_sigaction, SIGILL, &raw, 0, 8);
	else
		sigaction(SIGILL, &action, NULL);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	(void)argv;
	handle(argc > 1);
	pthread_create(&thread, NULL, faults, NULL);
	puts("ready");
	fflush(stdout);
	getchar();
	ends = 1;
	pthread_join(thread, NULL);
	printf("%d wrong\n", wrong);
	return 0;
}
