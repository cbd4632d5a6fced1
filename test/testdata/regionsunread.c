/* Makes known accesses to a region while something is wrong with who takes them. Arguments: how many,
 * and what is done in front of them. What it prints at the end is made of what they did. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memtr.h"

unsigned char table[256] __attribute__((aligned(64)));

/* As long as what has room for a jump. */
__attribute__((noipa)) void add(unsigned char *p) { __asm__ volatile("addb $1, (%0)\n\tnopl 8(%0)" : : "r"(p) : "memory", "cc"); }

/* All but four calls kill the program. */
static int only_four(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
	long i = 0, n = argc > 1 ? atol(argv[1]) : 0;
	const char *how = argc > 2 ? argv[2] : "";
	unsigned sum = 0;
	char text[64], word;
	memset(table, 0, sizeof table);
	if (memtr_init() || memtr_regist(table, sizeof table))
		return 2;
	if (!strcmp(how, "waits")) {
		for (; i < 1000; i++) /* which are written meanwhile */
			add(table + i % 251);
		printf("%d\n", getpid());
		fflush(stdout);
		if (read(0, &word, 1) != 1)
			return 3;
	} else if (!strcmp(how, "strict") ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) : !strcmp(how, "filter") ? only_four() : 0) {
		return 4;
	}
	for (; i < n; i++)
		add(table + i % 251);
	if (memtr_end() == 0 && !strcmp(how, "waits"))
		return 5;
	memtr_remove(table);
	for (i = 0; i < 251; i++)
		sum += (unsigned char)(table[i] - (unsigned char)((n - i + 250) / 251));
	int length = snprintf(text, sizeof text, "off by %u\n", sum);
	if (write(1, text, (size_t)length) != length)
		return 6;
	syscall(SYS_exit, 0);
	return 7;
}
