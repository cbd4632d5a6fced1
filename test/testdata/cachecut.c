/* Runs a command, then makes its text writable, as a hook does, and calls on. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

__attribute__((noinline)) int step(int x) { return x * 3 + 1; }

int main(int argc, char **argv)
{
	int sum = 0;
	if (argc < 2)
		return 2;
	for (int i = 0; i < 1000; i++)
		sum += step(i);
	if (system(argv[1]) != 0)
		return 3;
	if (mprotect((void *)((uintptr_t)step & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
		return 4;
	for (int i = 0; i < 1000; i++)
		sum += step(i);
	printf("%d %02x\n", sum, *(const unsigned char *)(uintptr_t)step);
	return 0;
}
