/* Forks by the system call of 32-bit programs, int $0x80, which is no kernel site;
 * with -DLIBRARY when a library's function is called. */
#include <stdio.h>
#include <sys/wait.h>

enum { EXIT = 1, FORK = 2, N = 1000000 };

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

static long fork_and_step(void)
{
	long x = 0, child = old_call(FORK, 0);
	for (int i = 0; i < N; i++)
		x = step(x & 1023);
	if (child == 0)
		old_call(EXIT, 0);
	wait(0);
	return x;
}

#ifdef LIBRARY
int late_work(int n)
{
	return n + (int)fork_and_step();
}
#else
int main(void)
{
	printf("%ld\n", fork_and_step());
	return 0;
}
#endif
