/* Touches known pages while counting is on or off, as who reads the output has it: threads and a
 * child touch pages of each phase, and threads that are in the middle of a call when counting is
 * paused or goes on touch one before and one behind that. Commands are bytes: w, a phase; a, a
 * thread that makes no call meanwhile; c, one that makes calls; b, that goes on; l, a library is
 * loaded, whose constructor touches a page; k, it touches another; p and r, the program pauses or
 * resumes by itself; x, the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dynprof.h"

enum { PAGE = 4096, PAGES = 128, THREADS = 3, WORKERS = THREADS + 1, OWN = 3, EACH = 16, HELD = 100, LATE = 110 };

static unsigned char *base = (unsigned char *)0x200000000000;

#ifdef LIBRARY
__attribute__((noinline)) static void late_store(volatile uint64_t *to) { *to = 1; }

void late(int n) { late_store((uint64_t *)(base + (LATE + n) * PAGE)); }

__attribute__((constructor)) static void loaded(void) { late(0); }
#else

static struct {
	pthread_barrier_t begin, end;
	volatile int phase; /* -1: the end */
} *both;

static volatile int ready, flag;

__attribute__((noinline)) static void store(uint64_t *to, uint64_t value) { *to = value; }

static uint64_t *page(int n) { return (uint64_t *)(base + n * PAGE); }

/* work touches the pages of a worker in each phase. */
static void *work(void *number)
{
	for (;;) {
		pthread_barrier_wait(&both->begin);
		int phase = both->phase;
		if (phase < 0)
			return 0;
		for (int i = 0; i < OWN; i++)
			store(page(1 + EACH * phase + (int)(long)number * 4 + i), 1);
		pthread_barrier_wait(&both->end);
	}
}

__attribute__((noinline)) static void hold(volatile uint64_t *before, volatile uint64_t *behind)
{
	*before = 1;
	ready = 1;
	while (!flag)
		;
	*behind = 1;
}

__attribute__((noinline)) static void nothing(void) { __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop"); }

__attribute__((noinline)) static void hold_calling(volatile uint64_t *before, volatile uint64_t *behind)
{
	*before = 1;
	ready = 1;
	while (!flag)
		nothing();
	nothing();
	*behind = 1;
}

static int held;

static void *holds(void *calls)
{
	(calls ? hold_calling : hold)(page(HELD + 2 * held), page(HELD + 2 * held + 1));
	return 0;
}

static void phase(int n)
{
	both->phase = n;
	pthread_barrier_wait(&both->begin);
	if (n >= 0)
		pthread_barrier_wait(&both->end);
}

int main(int argc, char **argv)
{
	void (*late)(int) = 0;
	int lates = 0;
	pthread_t threads[THREADS], holder;
	pthread_barrierattr_t shared;
	pid_t child;
	char c;
	if (mmap(base, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != base)
		return 1;
	both = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&both->begin, &shared, WORKERS + 1);
	pthread_barrier_init(&both->end, &shared, WORKERS + 1);
	if ((child = fork()) == 0) {
		work((void *)(long)THREADS);
		_exit(0);
	}
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], 0, work, (void *)i);
	for (int n = 0; dprintf(1, "go\n"), read(0, &c, 1) == 1 && c != 'x';) {
		int done = 0;
		switch (c) {
		case 'w':
			phase(n++);
			break;
		case 'a':
		case 'c':
			ready = flag = 0;
			pthread_create(&holder, 0, holds, (void *)(long)(c == 'c'));
			while (!ready)
				usleep(1000);
			break;
		case 'b':
			flag = 1;
			pthread_join(holder, 0);
			held++;
			break;
		case 'l': {
			void *library = dlopen(argv[argc - 1], RTLD_NOW);
			late = library ? (void (*)(int))dlsym(library, "late") : 0;
			break;
		}
		case 'k':
			late(++lates);
			break;
		case 'p':
			done = dynprof_pause();
			break;
		case 'r':
			done = dynprof_resume();
		}
		if (done)
			dprintf(1, "%c: %d\n", c, done);
	}
	phase(-1);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], 0);
	waitpid(child, 0, 0);
	return 0;
}
#endif
