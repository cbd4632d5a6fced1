/* A library that comes later touches pages that are known. */
#ifdef LIBRARY
void touch(unsigned char *base)
{
	base[3 * 4096] = 1;
	base[7 * 4096 + 1] += base[5 * 4096];
}
#else
#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	(void)argc;
	void *base = mmap((void *)0x200000000000, 128 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	void *lib = dlopen(argv[1], RTLD_NOW);
	void (*touch)(unsigned char *) = lib ? (void (*)(unsigned char *))dlsym(lib, "touch") : 0;
	if (!touch)
		return puts(dlerror()), 1;
	touch(base);
	dlclose(lib);
	lib = dlopen(argv[1], RTLD_NOW);
	touch = (void (*)(unsigned char *))dlsym(lib, "touch");
	touch((unsigned char *)base + 20 * 4096);
	puts("page 3 -w\npage 5 r-\npage 7 rw\npage 23 -w\npage 25 r-\npage 27 rw");
}
#endif
