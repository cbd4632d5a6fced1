/* Where its own calls lead: to an entry, or elsewhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long target(long x);
long calls_target(long x);
extern const unsigned char call_site[];

/* The call is behind what entries are overwritten with. */
__asm__(".text\n.p2align 4\n.globl target\n.type target, @function\n"
	"target: lea 1(%rdi), %rax\n\timul $3, %rax, %rax\n\tret\n.size target, .-target\n"
	".p2align 4\n.globl calls_target\n.type calls_target, @function\n"
	"calls_target: push %rbx\n\tlea 2(%rdi), %rbx\n\tmov %rbx, %rdi\n"
	"call_site: call target\n\tadd %rbx, %rax\n\tpop %rbx\n\tret\n.size calls_target, .-calls_target\n");

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 1, sum = 0;
	long (*volatile by_pointer)(long) = target;
	int distance;
	for (long i = 0; i < n; i++)
		sum += calls_target(i) + by_pointer(i);
	memcpy(&distance, call_site + 1, sizeof distance);
	printf("%ld %s\n", sum, call_site + 5 + distance == (const unsigned char *)target ? "entry" : "elsewhere");
	return 0;
}
