// PR_SET_SYSCALL_USER_DISPATCH with libc's text as the one range whose system
// calls go to the kernel; all others raise SIGSYS, as wine does it for Windows
// programs. The system calls of libc that we move into an arena are others.
#define _GNU_SOURCE
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static unsigned long text, size;
static volatile char blocks;
static int libc(struct dl_phdr_info *i, size_t z, void *d) {
	for (int k = 0; strstr(i->dlpi_name, "libc.so") && k < i->dlpi_phnum; k++)
		if (i->dlpi_phdr[k].p_type == PT_LOAD && i->dlpi_phdr[k].p_flags & PF_X)
			text = i->dlpi_addr + i->dlpi_phdr[k].p_vaddr, size = i->dlpi_phdr[k].p_memsz;
	return 0;
}
int main(void) {
	dl_iterate_phdr(libc, 0);
	if (prctl(59, 1, text, size, &blocks)) return 1;
	blocks = 1;
	int pid = fork(), status = 0;
	if (!pid) _exit(12);
	if (pid > 0) waitpid(pid, &status, 0);
	blocks = 0;
	printf("fork %d, the child's status %d\n", pid > 0, WEXITSTATUS(status));
	return 3;
}
