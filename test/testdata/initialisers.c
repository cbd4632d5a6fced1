/* Initialisers run in front of main, those of a library (initialiserslib.c) first. The program
 * sees what its dynamic linker was told. */
#include <stdio.h>
#include <sys/auxv.h>

int of_library(int);
extern char _start[];

__attribute__((noinline)) int of_program(int x) { return x * 3 + of_library(x); }
__attribute__((constructor)) static void begins(void) { printf("begins %d\n", of_program(2)); }

int main(void)
{
	int sum = 0;
	for (int i = 0; i < 1000; i++)
		sum += of_program(i);
	printf("%d, the entry: %d\n", sum, getauxval(AT_ENTRY) == (unsigned long)_start);
	return 3;
}
