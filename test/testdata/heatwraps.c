/* Accesses of rare forms that reach around the end of the address space, each of which faults at
 * once, and one that does not; says which pages are touched (heat_test.go). */
#define _GNU_SOURCE
#include <emmintrin.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

#define ALONE __attribute__((noinline, noclone))
enum { PAGE = 4096, PAGES = 8 };

static sigjmp_buf out;
static void fault(int sig) { siglongjmp(out, sig); }

ALONE void fill(char *p, long n) { __asm__ volatile("rep stosb" : "+D"(p), "+c"(n) : "a"(0) : "memory"); }
ALONE void copy(char *p, const char *q, long n) { __asm__ volatile("rep movsb" : "+D"(p), "+S"(q), "+c"(n) : : "memory"); }
ALONE void down(char *p, long n) { __asm__ volatile("std; rep stosq; cld" : "+D"(p), "+c"(n) : "a"(0) : "memory"); }
ALONE void masked(char *p, __m128i mask) { _mm_maskmoveu_si128(mask, mask, p); }

int main(void)
{
	char *end = (char *)-8, text[64] = "", *base = mmap((void *)0x200000000000, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (base == MAP_FAILED)
		return 1;
	signal(SIGSEGV, fault);
	signal(SIGBUS, fault);
	for (volatile int i = 0; i < 7; i++) {
		int sig = sigsetjmp(out, 1);
		if (!sig)
			switch (i) {
			case 0: fill(end, 16); break;
			case 1: fill(end, -1); break;
			case 2: copy(text, end, 16); break;
			case 3: down((char *)4, 16); break;
			case 4: down((char *)4, -1); break;
			case 5: masked(end, _mm_set1_epi8(-1)); break;
			case 6: fill(base + 2 * PAGE, 2 * PAGE); break;
			}
		printf("%d: %d\n", i, sig);
		__asm__ volatile("cld");
	}
	puts("page 2 -w\npage 3 -w");
	return 3;
}
