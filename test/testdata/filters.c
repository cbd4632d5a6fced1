/* Random seccomp filters, judged by libdynprof/resident/base/verdict.c and by the kernel. */
#define _GNU_SOURCE
#include "../../libdynprof/resident/base/verdict.c"

#include <linux/audit.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct program {
	uint32_t len;
	struct sock_filter code[];
};

enum { MOST = 40, KILLED = 0x800 };

static uint32_t word(void)
{
	static const uint32_t odd[] = {0, 1, 2, 31, 32, 33, 0x7fffffff, 0x80000000, 0xffffffff, 0xfff, AUDIT_ARCH_X86_64, SYS_getuid};
	uint32_t any = (uint32_t)random() << 1 ^ (uint32_t)random();
	return random() % 2 ? odd[(uint32_t)random() % 12] : any;
}

/* An offset in struct seccomp_data; the instruction pointer is not the same. */
static uint32_t field(void)
{
	static const uint32_t fields[] = {0, 4, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60};
	return fields[random() % 14];
}

static struct sock_filter one(int left)
{
	static const uint16_t alu[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_OR, BPF_AND, BPF_LSH, BPF_RSH, BPF_XOR, BPF_NEG};
	static const uint16_t jumps[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
	uint16_t src = random() % 2 ? BPF_X : BPF_K, op;
	uint32_t slot = (uint32_t)random() % BPF_MEMWORDS;
	uint8_t jt = (uint8_t)(random() % (left < 6 ? left : 6)), jf = (uint8_t)(random() % (left < 6 ? left : 6));
	switch (random() % 12) {
	case 0: case 1: return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, field());
	case 2: return (struct sock_filter)BPF_STMT((random() % 2 ? BPF_LD : BPF_LDX) | BPF_IMM, word());
	case 3: return (struct sock_filter)BPF_STMT((random() % 2 ? BPF_LD : BPF_LDX) | BPF_W | BPF_LEN, 0);
	case 4: return (struct sock_filter)BPF_STMT((random() % 2 ? BPF_LD : BPF_LDX) | BPF_MEM, slot);
	case 5: return (struct sock_filter)BPF_STMT(random() % 2 ? BPF_ST : BPF_STX, slot);
	case 6: return (struct sock_filter)BPF_STMT(BPF_MISC | (random() % 2 ? BPF_TAX : BPF_TXA), 0);
	case 7: return (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, jt);
	case 9:
		if (random() % 3 == 0)
			return (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, random() % 2 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | 3);
		/* fall through */
	case 8: return (struct sock_filter)BPF_JUMP(BPF_JMP | jumps[random() % 4] | src, word(), jt, jf);
	}
	op = alu[random() % 10];
	uint32_t k = word();
	if (src == BPF_K && op == BPF_DIV && k == 0)
		k = 7;
	if (src == BPF_K && (op == BPF_LSH || op == BPF_RSH))
		k &= 31;
	if (op == BPF_NEG)
		src = k = 0;
	return (struct sock_filter)BPF_STMT(BPF_ALU | op | src, k);
}

/* Judges getuid: ends with an errno, in every other filter of the low bits of what was computed. */
static struct program *make(void)
{
	static const struct sock_filter front[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getuid, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	}, end[] = {
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, KILLED - 1),
		BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct program *f = calloc(1, sizeof *f + MOST * sizeof *f->code);
	for (uint32_t i = 0; i < 3; i++)
		f->code[f->len++] = front[i];
	for (uint32_t i = 0; i < BPF_MEMWORDS; i++)
		f->code[f->len++] = (struct sock_filter)BPF_STMT(BPF_ST, i); /* none is read before it is written */
	for (int left = 1 + (int)random() % (MOST - 3 - BPF_MEMWORDS - 3); left > 0; left--)
		f->code[f->len++] = one(left);
	for (uint32_t i = 0; i < 3; i++)
		f->code[f->len++] = end[i];
	if (random() % 2)
		f->code[f->len - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 7);
	return f;
}

/* The errno that the kernel returns from getuid, KILLED if it kills; *got is
 * shared memory. */
static int kernel(const struct program *f, const uint64_t *args, volatile int *got)
{
	int status;
	*got = KILLED;
	pid_t pid = fork();
	if (pid == 0) {
		struct sock_fprog fprog = {(unsigned short)f->len, (struct sock_filter *)f->code};
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &fprog) != 0)
			_exit(1);
		long r = raw6(SYS_getuid, (long)args[0], (long)args[1], (long)args[2], (long)args[3], (long)args[4], (long)args[5]);
		*got = failed(r) ? (int)-r : 0;
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || (WIFEXITED(status) && WEXITSTATUS(status) != 0)) {
		printf("the filter cannot be installed\n");
		exit(2);
	}
	return *got;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1000, killed = 0, mild = 0;
	static uint8_t reached[BPF_MAXINSNS];
	volatile int *got = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	srandom(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
	for (int i = 0; i < n; i++) {
		struct program *f = make();
		struct seccomp_data data = {SYS_getuid, AUDIT_ARCH_X86_64, 0, {0}};
		for (int k = 0; k < 6; k++)
			data.args[k] = (uint64_t)word() << 32 | word();
		uint32_t ours = dp_verdict(f->code, f->len, &data);
		int want = kernel(f, (const uint64_t *)data.args, got);
		int says = (ours & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO ? (int)(ours & SECCOMP_RET_DATA) : KILLED;
		killed += want == KILLED;
		if (says != want) {
			printf("filter %d: %#x, the kernel %#x\n", i, says, want);
			return 1;
		}
		int refuses = dp_only_refuses(f->code, f->len, reached);
		mild += refuses;
		if (refuses && want == KILLED) {
			printf("filter %d kills\n", i);
			return 1;
		}
		free(f);
	}
	printf("%d filters judged alike, %d kill, %d only refuse\n", n, killed, mild);
	return killed == 0 || killed == n || mild == 0;
}
