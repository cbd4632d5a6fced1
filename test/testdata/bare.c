/* A program that nothing tells the functions of. It makes the file that is named. */
static long call(long nr, long a, long b, long c)
{
	long r;
	__asm__ volatile("syscall" : "=a"(r) : "0"(nr), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return r;
}

__attribute__((used)) static void start(long *sp)
{
	enum { OPEN = 2, EXIT = 60, CREATE = 0101 };
	if (sp[0] == 2)
		call(OPEN, sp[2], CREATE, 0600);
	call(EXIT, 3, 0, 0);
}

__asm__(".globl _start\n_start: mov %rsp,%rdi\n\tcall start");
