/* What the parts of observe share. */
#ifndef OBSERVE_H
#define OBSERVE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The function whose calls the test knows: STEPS for each work(). */
enum { STEPS = 1000 };
extern volatile int sink;
void step(void);
void work(void);

/* A subcommand; its arguments are argv[1] and on. */
struct command {
	const char *name;
	int (*run)(int argc, char **argv);
};
extern const struct command sees[], does[], sandboxes[], wraps[], runs[];

/* One that works, until it has ended; what a thread runs. */
void one_thread(void);
void one_child(void);
void *thread(void *arg);
/* Prints "WHAT: RESULT" or "WHAT: -1 errno E". */
void say(const char *what, long result);
/* Waits for the child and returns its status as a shell does. */
int await(pid_t pid);

#endif
