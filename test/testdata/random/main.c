/* Calls every function of a random program (functions.h, which the test
 * writes) a few times and prints what they return. All output is at the end,
 * all in one: an oracle steps through every instruction. */
#include <stdio.h>
#include <stdlib.h>

volatile long random_words[16];

#define V(name) extern void name(long, long);
#define X(name) extern long name(long, long);
#include "functions.h"
#undef V
#undef X

static long sum = 1;

static void add(long x)
{
	sum = (long)((unsigned long)sum * 0x9e3779b97f4a7c15 + (unsigned long)x);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
	for (int i = 0; i < rounds; i++) {
#define V(name) name(i * 3 - 1, i + 2);
#define X(name) add(name(i * 3 - 1, i + 2));
#include "functions.h"
	}
	for (int i = 0; i < 16; i++)
		add(random_words[i]);
	printf("sum %lx\n", sum);
	return (int)(sum & 63);
}
