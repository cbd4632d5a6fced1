/* Threads on cores of their own. Inlined: it is none of the functions that are counted. */
#ifndef PIN_H
#define PIN_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE first"
#endif
#include <sched.h>

/* Pins this thread to the nth of the cores it may use. */
static inline __attribute__((always_inline)) void pin(int n)
{
	cpu_set_t all, one;
	sched_getaffinity(0, sizeof all, &all);
	n %= CPU_COUNT(&all);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all) && n-- == 0) {
			CPU_ZERO(&one);
			CPU_SET(i, &one);
			sched_setaffinity(0, sizeof one, &one);
			return;
		}
}

#endif
