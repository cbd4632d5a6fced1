/* Makes executable memory: 3 MB of no file, 64 kB of one that is no ELF file.
 * Goes on until its input ends. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
	int file = memfd_create("image", 0);
	char c;
	if (ftruncate(file, 65536) != 0 || mmap(0, 3 << 20, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ||
	    mmap(0, 65536, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED)
		return 3;
	puts("ready");
	fflush(stdout);
	return read(0, &c, 1) > 0;
}
