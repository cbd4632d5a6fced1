/* A program with threads of its own, whose handler of faults leaves the stack of who was interrupted,
 * and comes back to it later, as schedulers do that preempt. Commands on stdin, each answered by a
 * line (with an argument handlers return by the program's own restorer, of which unwinders know
 * nothing but its bytes):
 *
 *	where   the address of the function that faults, in its first bytes but not the first
 *	leave   calls it on each of three stacks, mapped, of malloc and of the program's data, and leaves
 *		them in the handler; how many were left
 *	return  to all of them; the sum of what the function returned
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { THREADS = 3, STACK = 64 << 10, PAGE = 4096 };

long faults(const int *at);
__asm__(".text; .p2align 4; .globl faults; .type faults, @function\n"
	"faults: xor %eax, %eax; mov (%rdi), %eax; add $7, %eax; ret\n"
	".size faults, . - faults");

static ucontext_t home, threads[THREADS];
static int now, left, *page;
static long sum;

static void leave(int signal)
{
	(void)signal;
	left++;
	swapcontext(&threads[now], &home);
}

/* Nothing of what was on the stack stays there. */
__attribute__((noinline)) static void forget(void)
{
	char all[STACK / 2];
	memset(all, 0, sizeof all);
	__asm__ volatile("" : : "r"(all) : "memory");
}

static void body(void)
{
	for (;;) {
		sum += faults(page);
		forget();
		swapcontext(&threads[now], &home);
	}
}

static void each(void)
{
	for (now = 0; now < THREADS; now++)
		swapcontext(&home, &threads[now]);
}

void restorer(void);
__asm__("restorer: mov $15, %rax; syscall");

static void handle(int own)
{
	struct { void (*handler)(int); unsigned long flags; void (*restorer)(void); unsigned long mask; } act = {leave, 0x04000000, restorer, 0};
	if (own)
		syscall(SYS_rt_sigaction, SIGSEGV, &act, 0, 8);
	else
		signal(SIGSEGV, leave);
}

int main(int argc, char **argv)
{
	(void)argv;
	static char data[STACK];
	void *stacks[THREADS] = {mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), malloc(STACK), data};
	char line[64];
	page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*page = 3;
	handle(argc > 1);
	for (int i = 0; i < THREADS; i++) {
		getcontext(&threads[i]);
		threads[i].uc_stack.ss_sp = stacks[i];
		threads[i].uc_stack.ss_size = STACK;
		makecontext(&threads[i], body, 0);
	}
	setvbuf(stdout, 0, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof line, stdin)) {
		sum = left = 0;
		if (!strcmp(line, "where\n")) {
			printf("%lx\n", (unsigned long)faults);
		} else if (!strcmp(line, "leave\n")) {
			mprotect(page, PAGE, PROT_NONE);
			each();
			printf("%d\n", left);
		} else if (!strcmp(line, "return\n")) {
			mprotect(page, PAGE, PROT_READ);
			each();
			printf("%ld\n", sum);
		} else {
			return 0;
		}
	}
	return 1;
}
