/* Where its own calls and tail calls lead: to an entry, or elsewhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long target(long x);
long calls_target(long x);
long jumps_to_target(long x);
extern const unsigned char call_site[], jump_site[];

/* Both are behind what entries are overwritten with, and no body is moved whole. */
__asm__(".text\n.p2align 4\n.globl target\n.type target, @function\n"
	"target: lea 1(%rdi), %rax\n\timul $3, %rax, %rax\n\tret\n.size target, .-target\n"
	".p2align 4\n.globl calls_target\n.type calls_target, @function\n"
	"calls_target: push %rbx\n\tlea 2(%rdi), %rbx\n\tmov %rbx, %rdi\n"
	"call_site: call target\n\tadd %rbx, %rax\n\tpop %rbx\n\tret\n.size calls_target, .-calls_target\n"
	".p2align 4\n.globl jumps_to_target\n.type jumps_to_target, @function\n"
	"jumps_to_target: push %rbx\n\tlea 3(%rdi), %rbx\n\tmov %rbx, %rdi\n\tcall calls_target\n"
	"\tmov %rax, %rdi\n\tpop %rbx\n"
	"jump_site: .byte 0xe9\n\t.long target - . - 4\n.size jumps_to_target, .-jumps_to_target\n");

static const char *leads(const unsigned char *site)
{
	int distance;
	memcpy(&distance, site + 1, sizeof distance);
	return site + 5 + distance == (const unsigned char *)target ? "entry" : "elsewhere";
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 1, sum = 0;
	long (*volatile by_pointer)(long) = target;
	for (long i = 0; i < n; i++)
		sum += jumps_to_target(i) + by_pointer(i);
	printf("%ld %s %s\n", sum, leads(call_site), leads(jump_site));
	return 0;
}
