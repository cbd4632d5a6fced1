/* Forks by the system call of 32-bit programs, int $0x80, which is no kernel site:
 * both count in one row. */
#include <stdio.h>
#include <sys/wait.h>

static long old_call(long number, long first)
{
	long ret;
	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(number), "b"(first) : "memory", "r8", "r9", "r10", "r11");
	return ret;
}

__attribute__((noinline)) static long step(long x)
{
	__asm__ volatile("");
	return 3 * x + 1;
}

int main(void)
{
	long x = 0, child = old_call(2, 0); /* fork */
	for (int i = 0; i < 20000000; i++)
		x = step(x & 1023);
	if (child == 0)
		old_call(1, 0); /* exit */
	wait(0);
	printf("%ld\n", x);
	return 0;
}
