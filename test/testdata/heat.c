/* Touches pages that are known, and says which: and which of them the kernel has. With an
 * argument it touches one more in a child, which is forked. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 128 };

static unsigned char *base = (unsigned char *)0x200000000000;

static void says(int page, const char *what) { printf("page %d %s\n", page, what); }

__attribute__((noinline)) static unsigned char *at(int page, int offset) { return base + page * PAGE + offset; }

__attribute__((noinline)) static void store(uint64_t *to, uint64_t value) { *to = value; }
__attribute__((noinline)) static uint64_t load(const uint64_t *from) { return *from; }
__attribute__((noinline)) static void add(uint64_t *to) { *to += 7; }
__attribute__((noinline)) static uint64_t sum(const unsigned char *p, long n, long step)
{
	uint64_t s = 0;
	for (long i = 0; i < n; i++)
		s += p[i * step];
	return s;
}

struct far {
	uint64_t first;
	char between[3000];
	uint64_t last;
};

/* Two fields by one register: the touch has both ends. */
__attribute__((noinline)) static uint64_t ends(const struct far *f) { return f->first + f->last; }
__attribute__((noinline)) static void set_ends(struct far *f)
{
	f->last = 1;
	f->first = 2;
}

/* Flags are live, and rax is in the address. */
__attribute__((noinline)) static int live(const unsigned char *p, int a, int b)
{
	int less, carry;
	__asm__ volatile("cmpl %4, %3\n\t"
			 "movzbl (%%rax,%5), %%ecx\n\t"
			 "movb %%cl, 0x1000(%%rax)\n\t"
			 "setl %b0\n\t"
			 "setb %b1\n\t"
			 : "=&r"(less), "=&r"(carry)
			 : "a"(p), "r"(a), "r"(b), "r"((uint64_t)1)
			 : "rcx", "cc", "memory");
	return (less & 1) << 1 | (carry & 1);
}

/* The stack pointer moves, and is a base. */
__attribute__((noinline)) static uint64_t stack(unsigned char *top)
{
	uint64_t value = 0x1234;
	__asm__ volatile("movq %%rsp, %%r8\n\t"
			 "movq %1, %%rsp\n\t"
			 "pushq %0\n\t"
			 "subq $0x40, %%rsp\n\t"
			 "movq 0x40(%%rsp), %%r9\n\t"
			 "addq $0x40, %%rsp\n\t"
			 "popq %0\n\t"
			 "addq %%r9, %0\n\t"
			 "movq %%r8, %%rsp\n\t"
			 : "+r"(value)
			 : "r"(top)
			 : "r8", "r9", "memory");
	return value;
}

static sigjmp_buf back;

static void struck(int sig, siginfo_t *info, void *context)
{
	const greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	printf("signal %d, address %p, rax %llx rcx %llx rdx %llx rsi %llx, opcode %x, stack %lld\n", sig, info->si_addr, g[REG_RAX], g[REG_RCX], g[REG_RDX], g[REG_RSI],
	       *(unsigned char *)g[REG_RIP], g[REG_RSP] - g[REG_R8]);
	siglongjmp(back, 1);
}

/* A load that faults, with registers that the handler looks at. */
static void wild(uint64_t address)
{
	if (sigsetjmp(back, 1) == 0)
		__asm__ volatile("movq %%rsp, %%r8\n\tmovq $0x11, %%rcx\n\tmovq $0x22, %%rdx\n\tmovq $0x33, %%rsi\n\tmovq (%%rax), %%r9" : : "a"(address) : "rcx", "rdx", "rsi", "r8", "r9");
}

static void present(void)
{
	uint64_t entry;
	int fd = open("/proc/self/pagemap", O_RDONLY);
	for (int i = 0; i < PAGES; i++)
		if (pread(fd, &entry, sizeof entry, ((uint64_t)base / PAGE + i) * sizeof entry) == sizeof entry && entry >> 63)
			printf("present %d\n", i);
	close(fd);
}

int main(int argc, char **argv)
{
	if (mmap(base, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != base)
		return 1;
	madvise(base, PAGES * PAGE, MADV_NOHUGEPAGE);
	(void)argv;
	store((uint64_t *)at(3, 8), 5);
	says(3, "-w");
	uint64_t total = load((uint64_t *)at(5, 16));
	says(5, "r-");
	add((uint64_t *)at(7, 0));
	says(7, "rw");
	store((uint64_t *)at(9, PAGE - 3), 5); /* over the end */
	says(9, "-w");
	says(10, "-w");
	total += load((uint64_t *)at(12, PAGE - 1));
	says(12, "r-");
	says(13, "r-");
	total += sum(at(20, 100), 5, 2 * PAGE);
	for (int i = 20; i <= 28; i += 2)
		says(i, "r-");
	total += ends((struct far *)at(30, 2000));
	says(30, "r-");
	says(31, "r-");
	set_ends((struct far *)at(33, 100));
	says(33, "-w");
	int flags = live(at(40, 0), 1, 2) << 6 | live(at(40, 0), -1, 2) << 4 | live(at(40, 0), 2, 1) << 2 | live(at(40, 0), 1, 1);
	says(40, "r-");
	says(41, "-w");
	total += stack(at(50, PAGE));
	says(50, "rw");
	if (argc > 1) {
		fflush(stdout);
		pid_t child = fork();
		if (child == 0) {
			store((uint64_t *)at(60, 0), 1);
			_exit(0);
		}
		waitpid(child, 0, 0);
		says(60, "-w");
	} else {
		present();
	}
	printf("total %lu, flags %x\n", (unsigned long)total, flags);
	struct sigaction sa;
	memset(&sa, 0, sizeof sa);
	sa.sa_sigaction = struck;
	sa.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &sa, 0);
	sigaction(SIGBUS, &sa, 0);
	wild(8);
	wild(0x8000000000000000);
	wild(0xffffffffffffff00);
	wild(0x7ffffffffff0);
	return 0;
}
