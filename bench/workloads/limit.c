/* What the limit program adds to a workload: rows for the stubs that count in
 * one by GS, and at the end the calls of each function, on stderr.
 *
 * limit.go writes the rest, in assembly: the stubs, and limit_names with a name
 * for each of limit_functions functions. */
#include <asm/prctl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROW 65536 /* bytes: 8192 functions */
#define ROWS 8

extern const long limit_functions;
extern const char *const limit_names[];
unsigned long limit_counters[ROW / 8] __attribute__((aligned(4096)));
static unsigned long rows[ROWS][ROW / 8] __attribute__((aligned(4096)));
static atomic_int taken;

/* Gives the calling thread a row of its own. A row that the first thread was
 * given by the constructor stays with it. */
void limit_thread(void) {
	static _Thread_local int have;
	if (have)
		return;
	have = 1;
	int row = atomic_fetch_add(&taken, 1);
	if (row >= ROWS || syscall(SYS_arch_prctl, ARCH_SET_GS, rows[row]) != 0)
		abort();
}

__attribute__((constructor)) static void begin(void) { limit_thread(); }

__attribute__((destructor)) static void end(void) {
	for (long i = 0; i < limit_functions; i++) {
		unsigned long n = limit_counters[i];
		for (int r = 0; r < ROWS; r++)
			n += rows[r][i];
		fprintf(stderr, "%lu %s\n", n, limit_names[i]);
	}
}
