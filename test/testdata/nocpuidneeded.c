/* A program that has its CPUID instructions refused, without a handler for that: nocpuidneeded
 * LIBRARY. It stores by a mask behind that, and loads the library. It says which pages it has
 * touched (heat_test.go). */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <dlfcn.h>
#include <emmintrin.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALONE __attribute__((noinline, noclone))
enum { PAGE = 4096, PAGES = 8 };

ALONE void masked(char *p, __m128i mask) { _mm_maskmoveu_si128(_mm_set1_epi8(7), mask, p); }
static ALONE long step(long x) { __asm__ volatile("" ::: "memory"); return 3 * x + 1; }

int main(int argc, char **argv)
{
	char *base = mmap((void *)0x200000000000, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (argc < 2 || base == MAP_FAILED)
		return 1;
	if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0)) {
		puts("cannot be refused");
		return 3;
	}
	masked(base + 3 * PAGE, _mm_set_epi32(-1, 0, -1, 0));
	masked(base + 6 * PAGE - 8, _mm_set_epi32(-1, 0, 0, -1));
	masked(base + 7 * PAGE, _mm_setzero_si128());
	puts("page 3 -w\npage 5 -w\npage 6 -w");
	void *l = dlopen(argv[1], RTLD_NOW);
	long (*key)(long) = (long (*)(long))dlsym(l, "late_key"), sum = 0;
	for (int i = 0; i < 2000; i++)
		sum += key(i) + step(i);
	printf("%ld\n", sum);
	return 3;
}
