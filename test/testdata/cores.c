/* Faults where only a stub has the code. The argument says where; "spins" calls all
 * of it again and again. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "expect.h"

OWN int whole(int *p) { return *p + 3; }

/* The fault is displaced, behind a push, and the body stays. */
int pushes(int *p);
/* It reads a flag that its caller sets. */
int carries(int *p);
/* What it calls is in memory: that is the fault, behind what it has pushed. */
int calls(int *p);
__asm__(".text\n.globl pushes, carries, calls\n"
	".type pushes,@function\n"
	"pushes: .cfi_startproc\n push %rbx\n .cfi_adjust_cfa_offset 8\n .cfi_rel_offset rbx,0\n xor %ebx,%ebx\n mov (%rdi),%eax\n"
	" .rept 90\n add %ebx,%eax\n .endr\n pop %rbx\n .cfi_adjust_cfa_offset -8\n .cfi_restore rbx\n ret\n .cfi_endproc\n"
	".size pushes,.-pushes\n"
	".p2align 4\n.type carries,@function\n"
	"carries: .cfi_startproc\n mov $0,%eax\n adc (%rdi),%eax\n ret\n .cfi_endproc\n.size carries,.-carries\n"
	".p2align 4\n.type calls,@function\n"
	"calls: .cfi_startproc\n sub $8,%rsp\n .cfi_adjust_cfa_offset 8\n call *(%rdi)\n add $8,%rsp\n .cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc\n.size calls,.-calls\n"
	".p2align 4\n");

/* A direct call is displaced. */
OWN int next(int i) { static int one = 1; return whole(&one) + i; }

OWN int jumps(int *p)
{
	int r = p[0];
	for (int i = 0; i < 100; i++)
		r += i * p[i & 3] + next(i);
	return r;
}

/* Somebody sends SIGABRT meanwhile. */
OWN int waits(int *p)
{
	if (!p)
		syscall(SYS_write, 1, "waits\n", 6);
	return (int)syscall(p ? SYS_getpid : SYS_pause) + 1;
}

static const struct {
	const char *name;
	int (*call)(int *);
} all[] = {{"whole", whole}, {"pushes", pushes}, {"carries", carries}, {"calls", calls}, {"jumps", jumps}, {"waits", waits}};

OWN int outer(int (*call)(int *), int *p)
{
	int r = call(p);
	__asm__ volatile("");
	return r + 1;
}

int main(int argc, char **argv)
{
	union { int words[4]; int (*call)(int *); } all_of_it = {.call = whole};
	int *words = all_of_it.words, sum = 0;
	do {
		for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
			if (!strcmp(argv[argc - 1], "spins"))
				sum += outer(all[i].call, words);
			else if (!strcmp(argv[argc - 1], all[i].name))
				sum += outer(all[i].call, 0);
	} while (!strcmp(argv[argc - 1], "spins"));
	return sum;
}
