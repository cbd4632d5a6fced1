/* Shared by calls.c and events.c. */
#ifndef CALLS_H
#define CALLS_H

#define UNHOOKED __attribute__((no_instrument_function))

#ifdef __clang__
#define OWN __attribute__((noinline))
#else
#define OWN __attribute__((noinline, noclone))
#endif

void show(const char *what, long value);
void events(int with_faults); /* events.c */

#endif
