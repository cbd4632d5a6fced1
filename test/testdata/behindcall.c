/* Prints where system calls say that the program goes on, which is in rcx behind a syscall, as
 * offsets from there. */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
	long result, behind;
} both;

#define CALL(name, setup)                                                                       \
	both name(unsigned long, unsigned long, unsigned long);                                 \
	__asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" \
		setup "syscall\n1: lea 1b(%rip), %rdx\nsub %rdx, %rcx\nmov %rcx, %rdx\nret\n"   \
		".size " #name ", . - " #name "\n")

CALL(displaced, "push $39\npop %rax\n"); /* getpid, in the window */
CALL(first, "mov $10, %eax\n");		 /* mprotect, in the window */
CALL(further, "mov %rdx, %r8\nmov %rdi, %r9\nmov $10, %eax\n");
CALL(spread, "push $28\npop %rax\nmov %rdx, %rdx\nmov %rdi, %rdi\n"); /* madvise */
CALL(forks, "mov %rdx, %r8\nmov %rdi, %r9\nmov $57, %eax\n");

static void print(both b) { printf("%ld %ld\n", b.result, b.behind); }

int main(void)
{
	unsigned long page = (unsigned long)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 3; i++) {
		both b = displaced(0, 0, 0);
		printf("%d %ld\n", b.result == getpid(), b.behind);
		print(first(page, 4096, PROT_READ));
		print(further(page, 4096, PROT_READ | PROT_WRITE));
		print(further((unsigned long)&main & -4096UL, 4096, PROT_READ | PROT_EXEC)); /* text */
		print(spread(page, 4096, MADV_DONTNEED));
		fflush(stdout);
		b = forks(0, 0, 0);
		if (!b.result)
			_exit((int)b.behind & 0xff);
		int status;
		wait(&status);
		printf("%ld %d\n", b.behind, status);
	}
}
