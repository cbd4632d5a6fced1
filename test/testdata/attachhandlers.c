/* A thread spins, signals strike it there, and their handlers look where, which must be in its
 * function. Somebody attaches or detaches when a handler is about to begin, or runs. Commands:
 *
 *	first    a signal comes, whose handler stays at its first instruction
 *	once     so, and the kernel has forgotten the handler then
 *	two      two come at once: the handler of the second stays, that of the first has not begun
 *	one      one comes, whose handler stays; when it returns another comes at once
 *	release  they go on; says how many handlers have looked, and how many saw something else
 *	end
 * Argument: how many handlers there are before these.
 * A handler that stays goes on by itself when the function's bytes are again what they were.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { FIRST = SIGIO, BOTH = SIGALRM, LOOKS = SIGUSR1, STAYS = SIGUSR2, BYTES = 16 };

void spins(volatile int *goes);
extern const char spins_end[];
__asm__(".text\n.p2align 4\n.globl spins\n.type spins, @function\n"
	"spins:\n.cfi_startproc\n"
	"	mov	$1, %eax\n"
	"1:	imul	$3, %eax, %eax\n"
	"	add	$5, %eax\n"
	"	xor	$0x55, %eax\n"
	"	cmpl	$0, (%rdi)\n"
	"	jne	1b\n"
	"	ret\n"
	".cfi_endproc\n.size spins, . - spins\n"
	".globl spins_end\nspins_end:\n");

static volatile int goes = 1, stays, released, again;
static volatile unsigned looked, wrong, all;
static volatile pid_t spinner;
static char bytes[BYTES];
static uint16_t *page;

static int is_plain(void) { return memcmp((const void *)spins, bytes, sizeof bytes) == 0; }
static void strike(int sig) { syscall(SYS_tgkill, getpid(), spinner, sig); }

static void looks(int sig, siginfo_t *info, void *context)
{
	const char *pc = (const char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	(void)sig;
	(void)info;
	if (pc < (const char *)spins || pc >= spins_end)
		wrong++, all++;
	looked++;
}

/* The second of two sees the first's, or where that was struck. */
static void holds(int sig, siginfo_t *info, void *context)
{
	int was = is_plain();
	if (((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] == (greg_t)looks)
		looked++;
	else
		looks(sig, info, context);
	stays = 1;
	while (!released && is_plain() == was) {}
	if (again)
		strike(LOOKS);
}

static void raises(int sig)
{
	(void)sig;
	strike(LOOKS);
	strike(STAYS);
}

static void handles(int sig, void (*handler)(int, siginfo_t *, void *), int more)
{
	struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART | more};
	if (sig == STAYS)
		sigaddset(&a.sa_mask, LOOKS);
	sigaction(sig, &a, 0);
}

static void *spin(void *arg)
{
	spinner = (pid_t)syscall(SYS_gettid);
	spins(&goes);
	return arg;
}

/* Whether the thread is in that signal's handler. */
static int is_handling(int sig)
{
	char name[64], line[256];
	unsigned long long blocked = 0;
	snprintf(name, sizeof name, "/proc/self/task/%d/status", spinner);
	FILE *f = fopen(name, "r");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "SigBlk: %llx", &blocked);
	if (f)
		fclose(f);
	return blocked >> (sig - 1) & 1;
}

/* jmp to itself, and behind it to the handler */
static void make_page(void)
{
	static const uint8_t code[] = {0xeb, 0xfe, 0xff, 0x25, 0, 0, 0, 0};
	const void *to = (const void *)looks;
	page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(page, code, sizeof code);
	memcpy((char *)page + sizeof code, &to, sizeof to);
}

int main(int argc, char **argv)
{
	enum { LOOP = 0xfeeb, NOP = 0x9066 };
	char line[64];
	int others = argc > 1 ? atoi(argv[1]) : 0;
	unsigned waits = 0;
	pthread_t t;
	memcpy(bytes, (const void *)spins, sizeof bytes);
	make_page();
	for (int i = 0; i < others; i++)
		signal(SIGHUP, (void (*)(int))((char *)raises + i)); /* it never comes */
	handles(LOOKS, looks, 0);
	handles(STAYS, holds, 0);
	struct sigaction a = {.sa_handler = raises};
	sigaddset(&a.sa_mask, LOOKS);
	sigaddset(&a.sa_mask, STAYS);
	sigaction(BOTH, &a, 0);
	pthread_create(&t, 0, spin, 0);
	while (!spinner) {}
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin) && strcmp(line, "end\n") != 0) {
		if (strcmp(line, "release\n") == 0) {
			released = 1;
			__atomic_store_n(page, NOP, __ATOMIC_SEQ_CST);
			while (looked < waits) {}
			printf("looked %u wrong %u\n", looked, wrong);
		} else {
			int once = strcmp(line, "once\n") == 0, first = once || strcmp(line, "first\n") == 0;
			handles(FIRST, (void (*)(int, siginfo_t *, void *))page, once ? SA_RESETHAND : 0);
			stays = released = 0;
			again = strcmp(line, "one\n") == 0;
			looked = wrong = 0;
			waits = first ? 1 : 2;
			__atomic_store_n(page, LOOP, __ATOMIC_SEQ_CST);
			strike(first ? FIRST : again ? STAYS : BOTH);
			while (first ? !is_handling(FIRST) : !stays) {}
			printf("ready\n");
		}
		fflush(stdout);
	}
	goes = 0;
	pthread_join(t, 0);
	return all != 0;
}
