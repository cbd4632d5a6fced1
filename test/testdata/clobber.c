/* A plug-in that has every function called by way of code that does what code
 * compiled for the ABI may do: it changes all registers that are the callee's. With
 * CLOBBER=raw it does so without a keeper. Each function has a trampoline; the
 * return address is kept on a stack of this thread's, so that arguments on the
 * program's stack stay where they are. */
#define _GNU_SOURCE
#include <dynprof.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 32, DEPTH = 1 << 18 };

#define OF_THREAD __thread __attribute__((tls_model("initial-exec"))) /* no call */
static OF_THREAD struct frame { uint64_t slot, back; } *frames;
static OF_THREAD uint32_t depth;
static uint64_t *originals;
static long redirected, refused, misaligned;

/* slot is where the return address is. Frames below it are of calls that longjmp
 * has left. */
__attribute__((used, visibility("hidden"))) uint64_t clobber_enter(uint64_t number, uint64_t *slot)
{
	extern char clobber_back[] __attribute__((visibility("hidden")));
	if (!frames)
		frames = mmap(0, DEPTH * sizeof *frames, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	misaligned += (uint64_t)slot % 16 != 8;
	while (depth && frames[depth - 1].slot < (uint64_t)slot && (uint64_t)slot - frames[depth - 1].slot < 1 << 23)
		depth--;
	if (depth == DEPTH)
		abort();
	if (!(depth && frames[depth - 1].slot == (uint64_t)slot && *slot == (uint64_t)clobber_back))
		frames[depth++] = (struct frame){(uint64_t)slot, *slot}; /* else a tail jump: the frame is there */
	*slot = (uint64_t)clobber_back;
	return originals[number];
}

__attribute__((used, visibility("hidden"))) uint64_t clobber_leave(uint64_t slot)
{
	while (depth && frames[depth - 1].slot != slot)
		depth--;
	if (!depth)
		abort();
	return frames[--depth].back;
}

__asm__(".text\n"
	".macro CLOBBER regs:vararg\n"
	" .irp r,\\regs\n mov $0x5a5a5a5a5a5a,%\\r\n .endr\n"
	".endm\n"
	".macro SPOIL regs:vararg\n"
	" .irp r,\\regs\n pcmpeqd %xmm\\r,%xmm\\r\n .endr\n"
	".endm\n"
	".hidden clobber_common, clobber_back\n"
	"clobber_common:\n" /* the number is on the stack */
	" push %rbp; mov %rsp,%rbp\n"
	" push %rax; push %rcx; push %rdx; push %rsi; push %rdi; push %r8; push %r9; push %r10\n"
	" sub $136,%rsp; and $-16,%rsp\n"
	" .set i,0\n .irp r,0,1,2,3,4,5,6,7\n movups %xmm\\r,16*\\r(%rsp)\n .endr\n"
	" mov 8(%rbp),%rdi; lea 16(%rbp),%rsi\n"
	" call clobber_enter\n"
	" mov %rax,%r11\n"
	" .irp r,0,1,2,3,4,5,6,7\n movups 16*\\r(%rsp),%xmm\\r\n .endr\n"
	" mov -8(%rbp),%rax; mov -16(%rbp),%rcx; mov -24(%rbp),%rdx; mov -32(%rbp),%rsi; mov -40(%rbp),%rdi\n"
	" mov -48(%rbp),%r8; mov -56(%rbp),%r9; mov -64(%rbp),%r10\n"
	" mov %r11,8(%rbp)\n"
	" mov %rbp,%rsp; pop %rbp\n"
	" CLOBBER r11\n SPOIL 8,9,10,11,12,13,14,15\n"
	" ret\n" /* to the original */
	"clobber_back:\n"
	" sub $8,%rsp\n" /* where the return address was */
	" push %rbp; mov %rsp,%rbp\n"
	" push %rax; push %rdx; sub $40,%rsp; and $-16,%rsp\n"
	" movups %xmm0,(%rsp); movups %xmm1,16(%rsp)\n"
	" lea 8(%rbp),%rdi\n"
	" call clobber_leave\n"
	" mov %rax,8(%rbp)\n"
	" movups (%rsp),%xmm0; movups 16(%rsp),%xmm1\n"
	" mov -8(%rbp),%rax; mov -16(%rbp),%rdx\n"
	" mov %rbp,%rsp; pop %rbp\n"
	" CLOBBER rcx,rsi,rdi,r8,r9,r10,r11\n SPOIL 2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	" ret\n");
extern char clobber_common[] __attribute__((visibility("hidden")));

/* push $number; jmp *common(%rip) */
static void *trampoline(unsigned char *at, uint32_t number)
{
	uint64_t to = (uint64_t)clobber_common;
	memcpy(at, "\x68\0\0\0\0\xff\x25\0\0\0\0", 11);
	memcpy(at + 1, &number, 4);
	memcpy(at + 11, &to, 8);
	return at;
}

static void nothing(const struct dynprof_event *e, void *user)
{
	(void)e, (void)user;
}

__attribute__((destructor)) static void tell(void)
{
	if (getenv("CLOBBER_TELLS"))
		fprintf(stderr, "redirected %ld, refused %ld, misaligned %ld\n", redirected, refused, misaligned);
}

int dynprof_plugin_init(const struct dynprof_api *d)
{
	const char *how = getenv("CLOBBER"), *only = getenv("CLOBBER_ONLY");
	int flags = DYNPROF_COUNTED | (how && !strcmp(how, "raw") ? DYNPROF_RAW : 0);
	int64_t n = d->functions(), first = 0, end = n;
	if (only)
		sscanf(only, "%ld-%ld", &first, &end);
	if (d->register_translator(nothing, 0, DYNPROF_SYNCHRONOUS, 0) != 0)
		return 1;
	unsigned char *code = mmap(0, (size_t)n * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	originals = calloc((size_t)n, sizeof *originals);
	for (int64_t i = 0; i < n; i++) {
		originals[i] = (uint64_t)d->original(i);
		trampoline(code + i * SIZE, (uint32_t)i);
	}
	mprotect(code, (size_t)n * SIZE, PROT_READ | PROT_EXEC);
	for (int64_t i = first; i < end; i++) {
		int err = originals[i] ? d->redirect(i, code + i * SIZE, flags) : -ENODATA;
		redirected += err == 0;
		refused += err == -E2BIG || err == -EPROTOTYPE;
		if (err && err != -ENODATA && err != -E2BIG && err != -EPROTOTYPE)
			return 2;
	}
	return 0;
}
