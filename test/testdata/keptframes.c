/* A program that copies the contexts of its handlers, and resumes them where they are:
 * nothing below is a stack, neither memory that cannot be written to nor other data. At
 * last one that is not there: the kernel answers with SIGSEGV. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "expect.h"

enum { PAGE = 4096, ROOM = 16 * PAGE, ROUNDS = 50, EXTENDED_SIZE = 464 + 4 };

static char *place;
static int handled;
static sigjmp_buf out;

OWN void work(int n)
{
	__asm__ volatile("" : : "r"(n) : "memory");
}

__attribute__((noreturn)) static void resume(const char *at)
{
	__asm__ volatile("mov %0, %%rsp\n mov $15, %%eax\n syscall" : : "r"(at) : "memory");
	__builtin_unreachable();
}

/* What the processor saves has to lie on a border of 64 bytes. */
static void handler(int signal, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	char *fp = (char *)(((uintptr_t)place + sizeof *u + 63) & ~(uintptr_t)63), *was = (char *)u->uc_mcontext.fpregs;
	(void)signal, (void)info;
	handled++;
	work(1);
	memcpy(place, u, sizeof *u);
	memcpy(fp, was, *(uint32_t *)(was + EXTENDED_SIZE));
	((ucontext_t *)place)->uc_mcontext.fpregs = (fpregset_t)fp;
	resume(place);
}

static void faulted(int signal)
{
	siglongjmp(out, signal);
}

static void rounds(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		work(2);
		raise(SIGUSR1);
		work(3);
	}
}

int main(void)
{
	char *room = mmap(0, PAGE + ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	sigaction(SIGUSR1, &a, 0);
	place = room + PAGE;
	mprotect(room, PAGE, PROT_NONE);
	rounds();
	mprotect(room, PAGE, PROT_READ | PROT_WRITE);
	memset(room, 0x5a, PAGE);
	rounds();
	for (int i = 0; i < PAGE; i++)
		if (room[i] != 0x5a) {
			fail("written at", i - PAGE, 0);
			break;
		}
	expect("handled", handled, 2 * ROUNDS);
	static char other[16 * PAGE];
	stack_t on = {.ss_sp = other, .ss_size = sizeof other};
	struct sigaction f = {.sa_handler = faulted, .sa_flags = SA_ONSTACK};
	sigaltstack(&on, 0);
	sigaction(SIGSEGV, &f, 0);
	munmap(room, PAGE + ROOM);
	int got = sigsetjmp(out, 1);
	if (!got)
		resume(place);
	expect("signal", got, SIGSEGV);
	return wrong;
}
