/* Functions with a signature at their entry, which their callers read, as clang's
 * -fsanitize=function makes them: signature TIMES. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The type's bytes decode as a jump into the next function's window. */
#define SIGNED(name, body) \
	long name(long); \
	__asm__(".text\n.p2align 4, 0x90\n.globl " #name "\n.type " #name ", @function\n" #name ": .byte 0xeb, 6, 'v', '2', 0xeb, 0x0e, 0x76, 0x0c\n" body "\n.size " #name ", .-" #name "\n")

SIGNED(tiny, "lea 1(%rdi), %rax\n ret");
SIGNED(behind_endbr, "endbr64\n lea 2(%rdi), %rax\n ret");
SIGNED(loop, "xor %eax, %eax\n 1: add %rdi, %rax\n dec %rdi\n jnz 1b\n ret");
SIGNED(to_start, "dec %rdi\n jg to_start+8\n mov %rdi, %rax\n ret");
SIGNED(to_entry, "dec %rdi\n jg to_entry\n mov %rdi, %rax\n ret");
SIGNED(caller, "push %rdi\n call tiny\n pop %rdi\n add %rdi, %rax\n ret");
SIGNED(recursive, "cmp $1, %rdi\n jle 1f\n push %rdi\n dec %rdi\n call recursive\n pop %rdi\n 1: add %rdi, %rax\n ret");
SIGNED(tail, "add $3, %rdi\n jmp tiny");

static long call(long (*f)(long), long x)
{
	static const unsigned char want[] = {0xeb, 6, 'v', '2', 0xeb, 0x0e, 0x76, 0x0c};
	if (memcmp((void *)f, want, sizeof want) != 0) {
		printf("another signature\n");
		exit(1);
	}
	return f(x);
}

int main(int argc, char **argv)
{
	long (*volatile all[])(long) = {tiny, behind_endbr, loop, to_start, to_entry, caller, recursive, tail};
	long sum = 0;
	for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 1); i++)
		for (size_t k = 0; k < sizeof all / sizeof *all; k++)
			sum += call(all[k], 1 + i % 5);
	printf("%ld\n", sum);
	return 3;
}
