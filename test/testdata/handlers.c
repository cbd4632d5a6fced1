/* More signal handlers than have entries of their own: each steps through a
 * function of which it sees every instruction, and finds main from there. */
#define _GNU_SOURCE
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "expect.h"

int main(int argc, char **argv);
long stepped(long x); /* leaf, with the trap flag */
OWN long leaf(long x)
{
	__asm__ volatile("");
	return x * 3 + 1;
}
__asm__(".text\n.globl stepped\n.type stepped,@function\n"
	"stepped: .cfi_startproc\n pushfq\n .cfi_adjust_cfa_offset 8\n orl $0x100,(%rsp)\n popfq\n .cfi_adjust_cfa_offset -8\n"
	" call leaf\n pushfq\n .cfi_adjust_cfa_offset 8\n andl $~0x100,(%rsp)\n popfq\n .cfi_adjust_cfa_offset -8\n ret\n"
	" .cfi_endproc\n .size stepped,.-stepped\n");

static volatile long steps, lost, strange, last;

static void look(int number, void *context)
{
	void *frames[16];
	greg_t rip = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	int n = backtrace(frames, 16), home = 0;
	for (int i = 0; i < n; i++)
		home |= (char *)frames[i] >= (char *)main && (char *)frames[i] < (char *)main + 4000;
	last = number;
	lost += !home;
	strange += (rip < (greg_t)leaf || rip >= (greg_t)leaf + 64) && (rip < (greg_t)stepped || rip >= (greg_t)stepped + 64);
	steps++;
}

#define H(n) static void handler_##n(int s, siginfo_t *i, void *c) { (void)s, (void)i; look(n, c); }
#define TEN(f, n) f(n##0) f(n##1) f(n##2) f(n##3) f(n##4) f(n##5) f(n##6) f(n##7) f(n##8) f(n##9)
#define HUNDRED(f, n) TEN(f, n##0) TEN(f, n##1) TEN(f, n##2) TEN(f, n##3) TEN(f, n##4) TEN(f, n##5) TEN(f, n##6) TEN(f, n##7) TEN(f, n##8) TEN(f, n##9)
#define ALL(f) HUNDRED(f, 1) HUNDRED(f, 2) HUNDRED(f, 3) HUNDRED(f, 4) HUNDRED(f, 5) HUNDRED(f, 6) HUNDRED(f, 7)
ALL(H)
#define NAME(n) handler_##n,
static void (*const handlers[])(int, siginfo_t *, void *) = {ALL(NAME)};
enum { HANDLERS = sizeof handlers / sizeof *handlers };

/* As the kernel has it. */
struct kernel_action {
	void *handler;
	unsigned long flags;
	void *restorer;
	unsigned long mask;
};

static void steps_by(int i)
{
	static void *restorer;
	struct sigaction a = {.sa_sigaction = handlers[i], .sa_flags = SA_SIGINFO}, old;
	struct kernel_action k;
	sigaction(SIGTRAP, &a, &old);
	if (i > 0)
		expect("the handler before", old.sa_sigaction == handlers[i - 1], 1);
	syscall(SYS_rt_sigaction, SIGTRAP, 0, &k, 8);
	expect("the handler", k.handler == handlers[i], 1);
	expect("its flags", (long)(k.flags & ~0x04000000UL), SA_SIGINFO);
	if (!restorer)
		restorer = k.restorer;
	expect("the restorer", k.restorer == restorer, 1);
	expect("stepped", stepped(i), 3 * i + 1);
	expect("who was called", last, 100 + i);
}

int main(int argc, char **argv)
{
	void *warm[4];
	(void)argc, (void)argv;
	backtrace(warm, 4);
	for (int i = 0; i < HANDLERS; i++)
		steps_by(i);
	if (fork() == 0) { /* what the parent has installed, and more */
		expect("stepped", stepped(7), 22);
		expect("who was called", last, 100 + HANDLERS - 1);
		for (int i = HANDLERS - 1; i > 0; i -= 7)
			stepped(i);
		_exit(wrong);
	}
	int status;
	wait(&status);
	expect("the child", status, 0);
	expect("steps that did not find main", lost, 0);
	expect("steps elsewhere", strange, 0);
	expect("steps", steps >= 5 * HANDLERS, 1);
	puts(wrong ? "wrong" : "ok");
	return 0;
}
