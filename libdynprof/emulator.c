/* Valgrind and qemu-user run the planner, too, at a twentieth of its speed, and
 * valgrind's tools report what Go's runtime does as the program's errors. */
#include <cpuid.h>
#include <fcntl.h>

#include "base/own.h"
#include "emulator.h"

/* RUNNING_ON_VALGRIND: a client request is rotations of rdi that amount to none,
 * and an exchange of rbx with itself, with a request and its arguments in memory
 * (valgrind/valgrind.h describes it; "The Client Request mechanism" of the manual). */
int dp_in_valgrind(void)
{
	enum { RUNNING = 0x1001 };
	const volatile uint64_t request[6] = {RUNNING};
	uint64_t answer = 0;
	__asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
			 : "+d"(answer)
			 : "a"(request)
			 : "cc", "memory");
	return answer != 0;
}

/* The CPU says that it is qemu's, as it does in a virtual machine of qemu, too; and
 * the process has the emulator's name. */
int dp_in_qemu(void)
{
	enum { HYPERVISOR = 0x40000000 };
	static const char tcg[] = "TCGTCGTCGTCG", qemu[] = "qemu-";
	uint32_t a, cpu[3];
	char name[sizeof qemu - 1] = {0};
	__cpuid(HYPERVISOR, a, cpu[0], cpu[1], cpu[2]);
	if (!same_bytes(cpu, tcg, sizeof cpu))
		return 0;
	long fd = dp_open_kernels(AT_FDCWD, "/proc/self/comm", O_RDONLY);
	if (failed(fd))
		return 0;
	raw(SYS_read, fd, name, sizeof name);
	raw(SYS_close, fd);
	return same_bytes(name, qemu, sizeof name);
}
