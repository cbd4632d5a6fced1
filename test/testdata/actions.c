/* Signal handlers that are installed by structures which are not on the stack: says what they
   are told, and what rt_sigaction says of them. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

struct action { /* the kernel's */
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};

void restorer(void);
int faults(const int *); /* its first instruction does */
__asm__(".pushsection .text\n"
	"restorer: mov $15, %eax; syscall\n"
	".globl faults; .type faults, @function; .balign 16\n"
	"faults: mov (%rdi), %eax; ret; .balign 16, 0xcc\n"
	".size faults, 3\n"
	".popsection");

static const char *where;

static void fault(int sig, siginfo_t *info, void *context)
{
	greg_t *rip = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	(void)sig, (void)info;
	where = *rip == (greg_t)faults ? "the function" : "elsewhere";
	*rip += 2;
}

static struct action first, second, was;

static void chains(int sig, siginfo_t *info, void *context) { was.handler(sig, info, context); }

static void install(struct action *action)
{
	if (syscall(SYS_rt_sigaction, SIGSEGV, action, &was, 8) != 0)
		perror("rt_sigaction");
}

int main(void)
{
	first = (struct action){fault, 0x04000000 | SA_SIGINFO, restorer, 0};
	second = (struct action){chains, 0x04000000 | SA_SIGINFO, restorer, 0};
	install(&first);
	faults(0);
	printf("it faults in %s\n", where);
	install(&second);
	printf("there was %s\n", was.handler == fault ? "the first handler" : "another");
	where = 0;
	faults(0);
	printf("it faults in %s\n", where);
	struct action now;
	syscall(SYS_rt_sigaction, SIGSEGV, 0, &now, 8);
	printf("there is %s\n", now.handler == chains ? "the second" : "another");
}
