/* What textchange.c loads. */
__attribute__((noinline, aligned(4096))) long late_key(long x)
{
	int r;
	__asm__ volatile("mov $0x55555555, %0" : "=r"(r));
	return r + x;
}
