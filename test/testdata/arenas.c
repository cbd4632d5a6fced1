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
#include <unistd.h>

#include "dynprof.h"
#include "expect.h"

int main(int argc, char **argv);
static int (*work)(int);

static void load(const char *path, int times)
{
	for (int i = 0; i < times; i++) {
		void *l = dlopen(path, RTLD_NOW);
		if (!l)
			fail("dlopen", 0, 1);
		work = (int (*)(int))dlsym(l, "late_work");
		work(1);
		if (i < times - 1)
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

int main(int argc, char **argv)
{
	load(argv[2], argc > 3 ? atoi(argv[3]) : 1);
	if (!strcmp(argv[1], "sees"))
		sees();
	if (!strcmp(argv[1], "pauses"))
		pauses();
	if (!strcmp(argv[1], "ends"))
		ends();
	puts(wrong ? "wrong" : "ok");
	return 0;
}
