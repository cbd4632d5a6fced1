/* What instructions do to registers, found out by running each: reads records of a
 * length and 15 bytes, writes for each three sets of registers of 80 bits (one
 * byte a register: 16 general, 16 xmm, 16 what is above them, 32 above 15, 8
 * masks): 1 it was changed, 2 something else depends on it, 4 its own result does.
 * A first byte of 255 says that the instruction never ran without a fault. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GENERAL = 16, REGISTERS = 16 + 16 + 16 + 16 + 8, RSP = 4, SIZE = 1 << 14, TRIALS = 24, GOOD = 3 };

static struct state { uint64_t g[16]; uint64_t flags; uint64_t k[8]; uint64_t v[32][8]; } in, out, first, start;
static uint8_t *memory, *code, before[SIZE], after[SIZE];
uint64_t own_rsp, own[6], where;
static sigjmp_buf jump;

static void fault(int sig) { siglongjmp(jump, sig); }

extern struct state in_state __attribute__((alias("in"))), out_state __attribute__((alias("out")));
void go(void);
__asm__(".text\n.globl go\ngo:\n"
	"push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"mov %rsp, own_rsp\n"
	".altmacro\n"
	".macro LV n\n vmovups in_state+200+64*\\n, %zmm\\n\n.endm\n"
	".macro SV n\n vmovups %zmm\\n, out_state+200+64*\\n\n.endm\n"
	".macro LK n\n kmovq in_state+136+8*\\n, %k\\n\n.endm\n"
	".macro SK n\n kmovq %k\\n, out_state+136+8*\\n\n.endm\n"
	".set i,0\n.rept 32\n LV %i\n.set i,i+1\n.endr\n"
	".set i,0\n.rept 8\n LK %i\n.set i,i+1\n.endr\n"
	".irp n,0,1,2,3,4,5,6,7\n pxor %mm\\n,%mm\\n\n.endr\n"
	"fninit\n"
	"pushq in_state+128; popfq\n"
	"mov in_state+0,%rax; mov in_state+8,%rcx; mov in_state+16,%rdx; mov in_state+24,%rbx\n"
	"mov in_state+32,%rsp; mov in_state+40,%rbp; mov in_state+48,%rsi; mov in_state+56,%rdi\n"
	"mov in_state+64,%r8; mov in_state+72,%r9; mov in_state+80,%r10; mov in_state+88,%r11\n"
	"mov in_state+96,%r12; mov in_state+104,%r13; mov in_state+112,%r14; mov in_state+120,%r15\n"
	"jmp *where\n"
	".globl back\nback:\n"
	"mov %rax,out_state+0; mov %rcx,out_state+8; mov %rdx,out_state+16; mov %rbx,out_state+24\n"
	"mov %rsp,out_state+32; mov %rbp,out_state+40; mov %rsi,out_state+48; mov %rdi,out_state+56\n"
	"mov %r8,out_state+64; mov %r9,out_state+72; mov %r10,out_state+80; mov %r11,out_state+88\n"
	"mov %r12,out_state+96; mov %r13,out_state+104; mov %r14,out_state+112; mov %r15,out_state+120\n"
	"mov own_rsp,%rsp\n"
	"pushfq; popq out_state+128; cld\n"
	".set i,0\n.rept 32\n SV %i\n.set i,i+1\n.endr\n"
	".set i,0\n.rept 8\n SK %i\n.set i,i+1\n.endr\n"
	"emms\n"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\nret\n");
extern const char back[];

static uint64_t seed = 1;
static uint64_t rnd(void)
{
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return seed;
}

static uint64_t number(int trial)
{
	switch ((rnd() >> 20) % (trial % 3 == 2 ? 2 : 4)) {
	case 0: return (uint64_t)memory + SIZE / 2 + (rnd() >> 11) % 64 * 16;
	case 1: return (rnd() >> 11) % 256;
	case 2: return rnd();
	}
	return (uint64_t)memory + SIZE / 4 + (rnd() >> 11) % 512 * 8;
}

static int run(void)
{
	memcpy(memory, before, SIZE);
	int sig = sigsetjmp(jump, 0);
	if (sig)
		return 0;
	go();
	return 1;
}

/* One word of a register. */
static uint64_t *words(struct state *s, int r, int *n)
{
	if (r < 16)
		return *n = 1, &s->g[r];
	if (r < 32)
		return *n = 2, s->v[r - 16];
	if (r < 48)
		return *n = 6, &s->v[r - 32][2];
	if (r < 64)
		return *n = 8, s->v[r - 32];
	return *n = 1, &s->k[r - 64];
}

static int same(struct state *a, struct state *b, int r)
{
	int n;
	uint64_t *x = words(a, r, &n), *y = words(b, r, &n);
	return !memcmp(x, y, 8 * (unsigned)n);
}

static void change(int r, int trial)
{
	int n;
	uint64_t *w = words(&in, r, &n);
	for (int i = 0; i < n; i++)
		w[i] = r < 16 ? number(trial) : rnd();
}

static void try(uint8_t *found, int trial)
{
	for (int r = 0; r < REGISTERS; r++)
		if (r != RSP)
			change(r, trial);
	for (int i = 0; trial % 4 == 3 && i < 32; i++)
		for (int k = 0; k < 16; k++)
			((uint32_t *)in.v[i])[k] = (uint32_t)(rnd() >> 30) % 32;
	in.g[RSP] = (uint64_t)memory + SIZE / 2;
	in.flags = 0x202 | (rnd() & 0x8d5);
	if (!run())
		return;
	start = in, first = out;
	memcpy(after, memory, SIZE);
	if (!run() || memcmp(&out, &first, sizeof out) || memcmp(after, memory, SIZE))
		return; /* it has to do with other memory, perhaps this program's own */
	if (found[0] == 255)
		found[0] = 0;
	for (int r = 0; r < REGISTERS; r++)
		if (r != RSP && !same(&in, &out, r))
			found[r] |= 1;
	for (int r = 0; r < REGISTERS; r++) {
		if (r == RSP)
			continue;
		in = start;
		change(r, trial);
		if (!run())
			continue;
		int other = memcmp(after, memory, SIZE) || out.flags != first.flags;
		for (int s = 0; s < REGISTERS; s++)
			if (s != r && s != RSP)
				other |= !same(&out, &first, s);
		if (other)
			found[r] |= 2;
		if (!same(&out, &first, r))
			found[r] |= 4;
	}
	found[RSP]++;
}

int main(void)
{
	static uint8_t stack[1 << 16];
	stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
	struct sigaction act = {.sa_handler = fault, .sa_flags = SA_ONSTACK | SA_NODEFER};
	sigaltstack(&alternate, 0);
	for (int sig = 1; sig < 32; sig++)
		if (sig == SIGSEGV || sig == SIGILL || sig == SIGFPE || sig == SIGBUS || sig == SIGTRAP)
			sigaction(sig, &act, 0);
	memory = (uint8_t *)mmap((void *)0x10000000, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	code = (uint8_t *)mmap((void *)0x5f000000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	for (int i = 0; i < SIZE; i++)
		before[i] = (uint8_t)rnd();
	uint8_t record[16], found[REGISTERS];
	while (fread(record, 1, 16, stdin) == 16) {
		memcpy(code, record + 1, record[0]);
		uint8_t jmp[6] = {0xff, 0x25, 0, 0, 0, 0};
		memcpy(code + record[0], jmp, 6);
		uint64_t to = (uint64_t)back;
		memcpy(code + record[0] + 6, &to, 8);
		where = (uint64_t)code;
		memset(found, 0, sizeof found);
		found[0] = 255;
		for (int i = 0; i < TRIALS && found[RSP] < GOOD; i++)
			try(found, i);
		found[RSP] = 0;
		fwrite(found, 1, sizeof found, stdout);
	}
	return 0;
}
