/* Loads a library, the second argument, and closes it, as often as the third
 * says: each time it gets an arena. What knows of the arenas must know of the last
 * one, too. It prints what it finds wrong, and "ok". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "dynprof.h"
#include "expect.h"

int main(int argc, char **argv);
static int (*work)(int);
static int closes;

static void load(const char *path, int times)
{
	for (int i = 0; i < times; i++) {
		void *l = dlopen(path, RTLD_NOW);
		if (!l)
			fail("dlopen", 0, 1);
		work = (int (*)(int))dlsym(l, "late_work");
		work(1);
		if (i < times - 1 || closes)
			dlclose(l);
	}
}

/* ---- handlers see the library's code ------------------------------------ */

static volatile long steps, lost;

static void on_step(int sig)
{
	void *frames[32];
	int n = backtrace(frames, 32), home = 0;
	(void)sig;
	for (int i = 0; i < n; i++)
		home |= (char *)frames[i] >= (char *)main && (char *)frames[i] < (char *)main + 4000;
	lost += !home;
	steps++;
}

static int one(void) { return work(3); }

static void sees(void)
{
	void *warm[4];
	struct sigaction a = {.sa_handler = on_step};
	backtrace(warm, 4);
	sigaction(SIGTRAP, &a, 0);
	__asm__ volatile("pushfq\n orl $0x100,(%%rsp)\n popfq" ::: "memory", "cc");
	int got = one();
	__asm__ volatile("pushfq\n andl $~0x100,(%%rsp)\n popfq" ::: "memory", "cc");
	expect("work", got, 2);
	expect("steps that did not find main", lost, 0);
	expect("steps", steps > 30, 1);
}

/* ---- they can be paused, and ended --------------------------------------- */

static void pauses(void)
{
	int counted = dynprof_active();
	expect("pause", counted ? dynprof_pause() : 0, 0);
	work(1000);
	expect("resume", counted ? dynprof_resume() : 0, 0);
	work(100);
}

/* Where nothing may be written: the page that GS leads to then. */
static void ends(void)
{
	enum { ARCH_SET_GS = 0x1001, SIZE = 4 << 20 };
	char *base = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	expect("arch_prctl", syscall(SYS_arch_prctl, ARCH_SET_GS, base), 0);
	work(1000);
	for (long i = 0; i < SIZE; i += 8)
		if (*(long *)(base + i))
			fail("written to", i, 0);
}

/* ---- text that is another's now ------------------------------------------ */

static greg_t elsewhere, before;
static long counted_there;

static void on_signal(int sig, siginfo_t *info, void *context)
{
	greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	(void)sig, (void)info;
	before = g[REG_RIP];
	g[REG_RIP] = elsewhere;
}

/* A page is made where the library was; handlers go to every byte of what was a
 * window: incq <count>; jmp *<before>. */
static void replaces(void)
{
	enum { PAGE = 4096, BYTES = 16 };
	unsigned char *page = (unsigned char *)((long)work & -PAGE), *at = (unsigned char *)work;
	struct sigaction a = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
	long count = 0;
	expect("the page", (long)mmap(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0), (long)page);
	sigaction(SIGUSR1, &a, 0);
	for (int i = 0; i < BYTES; i++) {
		unsigned char code[] = {0x48, 0xff, 0x04, 0x25, 0, 0, 0, 0, 0xff, 0x24, 0x25, 0, 0, 0, 0};
		*(int *)(code + 4) = (int)(long)&counted_there;
		*(int *)(code + 11) = (int)(long)&before;
		memset(page, 0xf4, PAGE); /* hlt */
		memcpy(at + i, code, sizeof code);
		elsewhere = (greg_t)(at + i);
		raise(SIGUSR1);
		count++;
	}
	expect("who came there", counted_there, count);
}

int main(int argc, char **argv)
{
	closes = !strcmp(argv[1], "replaces");
	load(argv[2], argc > 3 ? atoi(argv[3]) : 1);
	if (closes)
		replaces();
	if (!strcmp(argv[1], "sees"))
		sees();
	if (!strcmp(argv[1], "pauses"))
		pauses();
	if (!strcmp(argv[1], "ends"))
		ends();
	puts(wrong ? "wrong" : "ok");
	return 0;
}
