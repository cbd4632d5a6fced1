/* A program that has all floating-point exceptions trap, and rounds up: floatfaults LIBRARY. */
#include <dlfcn.h>
#include <stdio.h>
#include <xmmintrin.h>

int main(int argc, char **argv)
{
	(void)argc;
	unsigned short control = 0x0b40;
	_mm_setcsr(0x4000);
	__asm__ volatile("fldcw %0" : : "m"(control));
	void *l = dlopen(argv[1], RTLD_NOW);
	long (*key)(long) = (long (*)(long))dlsym(l, "late_key");
	long sum = 0;
	for (int i = 0; i < 2000; i++)
		sum += key(i);
	unsigned csr = _mm_getcsr();
	__asm__ volatile("fnstcw %0" : "=m"(control));
	_mm_setcsr(0x1f80);
	__asm__ volatile("fninit");
	printf("%ld, %x %x\n", sum, csr, control);
	return 3;
}
