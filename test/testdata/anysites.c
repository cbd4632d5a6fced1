// A program whose C library makes system calls that must be known of before: by syscall(3),
// mprotect(3), and at the ends of threads.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, THREADS = 300, FORKS = 20, EACH = 1000, SET_GS = 0x1001, GET_GS = 0x1004 };

static volatile long sum;

__attribute__((noinline)) void work(long i) { sum += i; }

// Its first instruction has four bytes, so that the jump there has more.
__asm__(".p2align 12; .globl changed; .type changed, @function\n"
	"changed: lea 1(%rdi), %rax; nop; nop; ret; .size changed, .-changed; .p2align 12");
extern long changed(long);
static long (*volatile call)(long) = changed;

// Changes what its first instruction adds.
static void change_text(void)
{
	volatile char *at = (volatile char *)call;
	if (mprotect((void *)at, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
		perror("mprotect");
	for (int i = 0; i < 3; i++) {
		printf("%02x %ld\n", at[4] & 255, call(i));
		at[3] = i + 2;
	}
}

static void *runs(void *unused)
{
	work(1);
	return unused;
}

// More threads than there are rows that a filter leaves: no more of these can be mapped.
static void make_threads(void)
{
	static char stack[1 << 16] __attribute__((aligned(16)));
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog all = {sizeof filter / sizeof filter[0], filter};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &all))
		perror("seccomp");
	for (int i = 0; i < THREADS; i++) {
		pthread_t t;
		pthread_attr_t with;
		pthread_attr_init(&with);
		pthread_attr_setstack(&with, stack, sizeof stack);
		if (pthread_create(&t, &with, runs, 0) || pthread_join(t, 0))
			perror("thread");
	}
}

// Both count at once.
static void fork_away(void)
{
	for (int i = 0; i < FORKS; i++) {
		long child = syscall(SYS_fork);
		for (int k = 0; k < EACH; k++)
			work(k);
		if (!child)
			_exit(0);
		waitpid(child, 0, 0);
	}
}

static void take_gs(void)
{
	unsigned long base = 0;
	syscall(SYS_arch_prctl, SET_GS, 0x1234560000UL);
	work(1); // is not counted any more
	syscall(SYS_arch_prctl, GET_GS, &base);
	printf("%lx\n", base);
}

int main(int argc, char **argv)
{
	change_text();
	fork_away();
	make_threads();
	if (argc > 1 && argv[1][0] == 'G')
		take_gs();
}
