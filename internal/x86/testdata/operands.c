/* What instructions do to memory, found out by running each: reads queries, an instruction
 * with registers and the protection of pages, and writes how it ended, and what is in memory
 * then. Vector registers are all ones but zmm2, which is 0; so are masks; pages hold a
 * pattern. Needs AVX-512. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { REGIONS = 5, PAGES = 8, PAGE = 4096, CODE = 0x5f000000, MEMORY = 0x10000000, APART = 0x100000, TRAP = 0xcc };

struct query {
	uint8_t code[16]; /* the rest is int3 */
	uint64_t g[16];
	uint8_t protection[REGIONS * PAGES];
	uint64_t pattern, look;
};

struct answer {
	uint8_t sig, error, unused[6];
	uint64_t rip, address;
	uint8_t memory[64]; /* at look */
};

static sigjmp_buf jump;
static struct answer answer;
static volatile sig_atomic_t running;
static uint64_t fs;
uint64_t own_rsp, g[16], where = CODE;

__attribute__((optimize("no-stack-protector"))) static void fault(int sig, siginfo_t *info, void *context)
{
	long result;
	__asm__ volatile("cld; syscall" : "=a"(result) : "0"(SYS_arch_prctl), "D"(ARCH_SET_FS), "S"(fs) : "rcx", "r11", "memory");
	if (!running)
		_exit(1);
	running = 0;
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	answer.sig = (uint8_t)sig;
	answer.error = (uint8_t)regs[REG_ERR];
	answer.rip = (uint64_t)regs[REG_RIP];
	answer.address = (uint64_t)info->si_addr;
	siglongjmp(jump, 1);
}

void go(void);
__asm__(".text\n.globl go\ngo:\n"
	"push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"mov %rsp, own_rsp\n"
	".altmacro\n"
	".macro ONES n\n vpternlogd $0xff, %zmm\\n, %zmm\\n, %zmm\\n\n.endm\n"
	".macro MASK n\n kxnorq %k\\n, %k\\n, %k\\n\n.endm\n"
	".set i,0\n.rept 32\n ONES %i\n.set i,i+1\n.endr\n"
	".set i,0\n.rept 8\n MASK %i\n.set i,i+1\n.endr\n"
	"vpxord %zmm2,%zmm2,%zmm2\n"
	"fninit\n"
	"mov g+0,%rax; mov g+8,%rcx; mov g+16,%rdx; mov g+24,%rbx; mov g+40,%rbp; mov g+48,%rsi; mov g+56,%rdi\n"
	"mov g+64,%r8; mov g+72,%r9; mov g+80,%r10; mov g+88,%r11; mov g+96,%r12; mov g+104,%r13; mov g+112,%r14; mov g+120,%r15\n"
	"mov g+32,%rsp\n"
	"jmp *where\n");

int main(void)
{
	static uint8_t stack[1 << 16];
	stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
	struct sigaction act = {.sa_sigaction = fault, .sa_flags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO};
	sigaltstack(&alternate, 0);
	syscall(SYS_arch_prctl, ARCH_GET_FS, &fs);
	const int signals[] = {SIGSEGV, SIGILL, SIGFPE, SIGBUS, SIGTRAP};
	for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaction(signals[i], &act, 0);
	for (uint64_t i = 0; i < REGIONS; i++)
		mmap((void *)(MEMORY + i * APART), PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	uint8_t *code = mmap((void *)CODE, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memset(code, TRAP, PAGE);
	alarm(300); /* of CPU that no instruction should take */
	struct query q;
	while (fread(&q, sizeof q, 1, stdin) == 1) {
		memcpy(code, q.code, sizeof q.code);
		memcpy(g, q.g, sizeof g);
		for (uint64_t i = 0; i < REGIONS * PAGES; i++) {
			uint64_t *page = (uint64_t *)(MEMORY + i / PAGES * APART + i % PAGES * PAGE);
			for (int k = 0; k < PAGE / 8; k++)
				page[k] = q.pattern;
			if (q.protection[i] != (PROT_READ | PROT_WRITE))
				mprotect(page, PAGE, q.protection[i]);
		}
		memset(&answer, 0, sizeof answer);
		if (!sigsetjmp(jump, 0)) {
			running = 1;
			go();
		}
		uint32_t mxcsr = 0x1f80;
		__asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
		for (uint64_t i = 0; i < REGIONS * PAGES; i++)
			if (q.protection[i] != (PROT_READ | PROT_WRITE))
				mprotect((void *)(MEMORY + i / PAGES * APART + i % PAGES * PAGE), PAGE, PROT_READ | PROT_WRITE);
		if (q.look)
			memcpy(answer.memory, (void *)q.look, sizeof answer.memory);
		fwrite(&answer, sizeof answer, 1, stdout);
	}
	return 0;
}
