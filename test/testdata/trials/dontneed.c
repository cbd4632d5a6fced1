/* A program that gives a page of its own text back to the kernel: it is the file's
 * again. A jump of ours lies on this page and the one in front. */
#include <stdio.h>
#include <sys/mman.h>

long edge(long);
extern char behind[];
__asm__(".text\n.p2align 12\n.skip 4096-2, 0x90\n.globl edge\n.type edge, @function\nedge: lea 1(%rdi),%rax\nret\n.size edge, .-edge\n"
	".globl behind\nbehind: .p2align 12, 0x90\n");

int main(void)
{
	printf("%ld\n", edge(1));
	fflush(stdout);
	madvise((void *)((unsigned long)behind & -4096), 4096, MADV_DONTNEED);
	printf("%ld\n", edge(2));
	return 3;
}
