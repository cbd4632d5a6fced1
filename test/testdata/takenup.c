/* Two contexts of one thread: the first one calls, step by step, and every few steps a handler has
 * the second one go on in its place, which gives it back by a signal of its own. The arguments are
 * how often it calls, and how many steps that are; 0: it is left alone. */
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

void work(long times);
extern long calls;
__asm__(".globl work\n"
	".type work,@function\n"
	"work:\n"
	".cfi_startproc\n"
	"push %rbx\n"
	".cfi_def_cfa_offset 16\n"
	"mov %rdi,%rbx\n"
	"lea 7(%rbx),%rax\n"
	"1: call leaf\n" /* a block of its own, with nothing in front of the call */
	"dec %rbx\n"
	"jnz 1b\n"
	"call last\n"
	"call last\n"
	"pop %rbx\n"
	".cfi_def_cfa_offset 8\n"
	"ret\n"
	".cfi_endproc\n"
	".size work,.-work\n"
	".globl leaf\n"
	".type leaf,@function\n"
	"leaf:\n"
	".cfi_startproc\n"
	"incq calls(%rip)\n"
	"mov calls(%rip),%rax\n"
	"test $1,%al\n"
	"jz 1f\n"
	"call last\n"
	"1: ret\n"
	".cfi_endproc\n"
	".size leaf,.-leaf\n"
	".globl last\n"
	".type last,@function\n"
	"last:\n"
	".cfi_startproc\n"
	"mov calls(%rip),%rax\n"
	"lea 1(%rax),%rax\n"
	"ret\n"
	".cfi_endproc\n"
	".size last,.-last\n"
	".data\n"
	".globl calls\n"
	"calls: .quad 0\n"
	".text\n");

/* As much as the kernel has of a context: what lies behind is the signal's. */
enum { SIZE = offsetof(ucontext_t, uc_sigmask) + 8 };

static ucontext_t first, second;
static volatile long switched, steps, every;

static void on_step(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info;
	if (++steps % every)
		return;
	memcpy(&first, context, SIZE);
	memcpy(context, &second, SIZE);
}

static void on_back(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info;
	memcpy(&second, context, SIZE);
	memcpy(context, &first, SIZE);
}

static void on_begin(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info;
	memcpy(&first, context, SIZE);
	for (;; switched++)
		raise(SIGUSR1);
}

int main(int argc, char **argv)
{
	static char stack[1 << 16];
	stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
	struct sigaction step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, back = {.sa_sigaction = on_back, .sa_flags = SA_SIGINFO};
	struct sigaction begin = {.sa_sigaction = on_begin, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	if (argc < 3 || sigaltstack(&other, 0) || sigaction(SIGTRAP, &step, 0) || sigaction(SIGUSR1, &back, 0) || sigaction(SIGUSR2, &begin, 0))
		return 2;
	raise(SIGUSR2);
	long times = atol(argv[1]);
	every = atol(argv[2]);
	if (every) {
		__asm__ volatile("pushf\norl $0x100,(%%rsp)\npopf\n" ::: "memory", "cc");
		work(times);
		__asm__ volatile("pushf\nandl $~0x100,(%%rsp)\npopf\n" ::: "memory", "cc");
	} else {
		work(times);
	}
	printf("%ld calls, %s\n", calls, !every || switched >= 6 * times / every ? "struck as it should be" : "not struck as it should be");
	return 0;
}
