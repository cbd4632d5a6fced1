/* Does known accesses to regions while these are audited, and what only the kernel does with them.
 * The first argument is what is done. Each store and each load is by its own function. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memtr.h"

#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noipa))
#endif

static unsigned char table[8192] __attribute__((aligned(4096))), after[4096] __attribute__((aligned(4096)));

ALONE void store(unsigned char *p, int n) { __asm__ volatile("movb %b1, (%0)" : : "r"(p), "q"(n) : "memory"); }

ALONE int load(const unsigned char *p)
{
	int n;
	__asm__ volatile("movzbl (%1), %0" : "=r"(n) : "r"(p) : "memory");
	return n;
}

/* Both operands are in regions, on two pages. */
ALONE void move(unsigned char *to, const unsigned char *from)
{
	__asm__ volatile("movsq" : "+D"(to), "+S"(from) : : "memory");
}

ALONE void repeated(unsigned char *to, long n)
{
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(1) : "memory");
}

ALONE void across(unsigned char *p) /* a page */
{
	__asm__ volatile("movq %%rax, 4092(%0)" : : "r"(p) : "memory");
}

static int fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	return 3;
}

#define CHECK(what) do { if (!(what)) return fail(#what); } while (0)

static void *many(void *p)
{
	for (int i = 0; i < 300; i++)
		store(p, load(p) + 1);
	return 0;
}

static void *later(void *fd)
{
	char path[64], state = 0;
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
	for (int i = 0; state != 'S' && i < 10000; i++) { /* until the other waits */
		FILE *f = fopen(path, "r");
		if (!f || fscanf(f, "%*d %*s %c", &state) != 1)
			return fd;
		fclose(f);
		usleep(1000);
	}
	usleep(20000);
	for (int i = 0; i < 10; i++)
		store(table + 64, i);
	return write(*(int *)fd, "0123456789", 10) == 10 ? 0 : fd;
}

static sigjmp_buf back;
static volatile sig_atomic_t handled, ticks;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	handled += info->si_addr == after + 8 && info->si_code == SEGV_ACCERR;
	siglongjmp(back, 1);
}

static void on_tick(int sig)
{
	(void)sig;
	store(table, 1);
	ticks++;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	int ends[2];
	CHECK(pipe(ends) == 0);
	CHECK(memtr_regist(table, sizeof table) == 0);
	if (!strcmp(how, "known")) { /* 3 stores, 2 loads, 2 by one instruction, 1 on two pages, and 100 that are not recorded */
		for (int i = 0; i < 3; i++)
			store(table + 5000 * (i & 1), i);
		CHECK(load(table) == 2 && load(table + 5000) == 1);
		move(table + 5000, table);
		across(table);
		repeated(table + 4090, 100);
		store(after, 1);
	} else if (!strcmp(how, "memset")) { /* by a library that is not counted */
		void *(*volatile set)(void *, int, size_t) = memset;
		store(table, 1);
		set(table, 7, 4000);
		CHECK(load(table) == 7 && load(table + 3999) == 7);
	} else if (!strcmp(how, "read")) {
		struct iovec two[] = {{table + 100, 2}, {table + 4095, 3}};
		CHECK(write(ends[1], "abcdefgh", 8) == 8);
		CHECK(read(ends[0], table + 10, 3) == 3 && readv(ends[0], two, 2) == 5);
		CHECK(load(table + 10) == 'a' && load(table + 101) == 'e' && load(table + 4097) == 'h');
		CHECK(write(ends[1], table + 4094, 4) == 4 && read(ends[0], after, 4) == 4 && !memcmp(after, "\0fgh", 4));
		CHECK(mprotect(table, 4096, PROT_READ) == 0 && load(table + 10) == 'a' && mprotect(table, 4096, PROT_READ | PROT_WRITE) == 0);
		store(table + 1, 1);
	} else if (!strcmp(how, "threads")) {
		enum { THREADS = 4 };
		pthread_t t[THREADS];
		for (int i = 0; i < THREADS; i++)
			CHECK(pthread_create(&t[i], 0, many, table + i) == 0);
		for (int i = 0; i < THREADS; i++)
			CHECK(pthread_join(t[i], 0) == 0);
		for (int i = 0; i < THREADS; i++)
			CHECK(load(table + i) == 300 % 256);
	} else if (!strcmp(how, "blocked")) {
		pthread_t t;
		void *bad = 0;
		CHECK(pthread_create(&t, 0, later, &ends[1]) == 0);
		CHECK(read(ends[0], table, 10) == 10 && pthread_join(t, &bad) == 0 && !bad);
		CHECK(load(table + 9) == '9');
	} else if (!strcmp(how, "fork")) {
		store(table, 1);
		pid_t child = fork();
		if (child == 0) {
			store(table, 2);
			_exit(load(table) != 2);
		}
		int status;
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		CHECK(load(table) == 1);
	} else if (!strcmp(how, "fault")) { /* one of its own, with a handler that stays although all signals are blocked at accesses */
		struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, now;
		sigset_t all, old, is;
		sigfillset(&all);
		CHECK(sigaction(SIGSEGV, &act, 0) == 0 && mprotect(after, 4096, PROT_READ) == 0);
		CHECK(sigprocmask(SIG_SETMASK, &all, &old) == 0);
		store(table, 1);
		store(table + 5000, 1);
		CHECK(sigprocmask(SIG_SETMASK, &old, &is) == 0 && sigismember(&is, SIGSEGV) && sigismember(&is, SIGTRAP));
		CHECK(sigaction(SIGSEGV, 0, &now) == 0 && now.sa_sigaction == on_fault);
		if (!sigsetjmp(back, 1))
			store(after + 8, 1);
		CHECK(handled == 1);
		store(table, 1);
	} else if (!strcmp(how, "signals")) { /* whose frames begin in a region: what handlers do is below */
		static unsigned char stack[65536] __attribute__((aligned(4096)));
		stack_t on = {.ss_sp = stack, .ss_size = 61440 + 512};
		struct sigaction act = {.sa_handler = on_tick, .sa_flags = SA_ONSTACK | SA_RESTART};
		struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
		CHECK(memtr_regist(stack + 61440, 512) == 0);
		CHECK(sigaltstack(&on, 0) == 0 && sigaction(SIGALRM, &act, 0) == 0);
		int n = 0;
		for (setitimer(ITIMER_REAL, &often, 0); ticks < 10; n++)
			store(table + 1, load(table + 1) + 1);
		setitimer(ITIMER_REAL, &never, 0);
		CHECK(load(table + 1) == n % 256);
		printf("%d %d\n", n, (int)ticks);
	} else if (!strcmp(how, "exec")) {
		store(table, 1);
		execl("/bin/echo", "echo", "done", (char *)0);
		return fail(how);
	} else {
		return fail(how);
	}
	return memtr_end();
}
