/* A program with a use of its own for the GS register. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned long mine[64] = {11, 22, 33};

static __attribute__((noinline, noclone)) unsigned long step(long i)
{
	unsigned long value;
	__asm__ volatile("movq %%gs:(,%1,8), %0" : "=r"(value) : "r"(i));
	return value;
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int main(void)
{
	unsigned long base = 1, changed = 0;
	int list[100];
	syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
	printf("free %d\n", base == 0);
	printf("set %ld\n", syscall(SYS_arch_prctl, ARCH_SET_GS, mine));
	for (int i = 0; i < 100; i++)
		list[i] = 99 - i;
	qsort(list, 100, sizeof *list, compare);
	for (long i = 0; i < 3; i++)
		printf("value %lu\n", step(i));
	for (int i = 3; i < 64; i++)
		changed += mine[i];
	printf("changed %lu\n", changed);
	return 0;
}
