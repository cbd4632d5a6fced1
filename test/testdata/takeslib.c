/* A library that sets the GS base by wrgsbase, and reads by it. */
unsigned long take(void *base)
{
	unsigned long value;
	__asm__ volatile("wrgsbase %1\n\tmovq %%gs:8, %0" : "=r"(value) : "r"(base));
	return value;
}
