/* Memory that is dead early on, and work that does not need it. What is made of the arguments' letters is done
 * meanwhile: t threads, f a child that is forked, e one that executes a program, r all of the memory is read again at the
 * end, p the number of the process is printed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define TABLE (4 << 20)
#define BLOCK (6 << 20)
#define SMALL 4000
#define SMALLS 1000

static char table[TABLE], initialised[1 << 20] = {1};
static char *smalls[SMALLS];
static unsigned long results[4];

NOINLINE static void fill(volatile char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)(i * 7);
}

NOINLINE static unsigned long sum(volatile char *p, size_t n)
{
	unsigned long s = 0;
	for (size_t i = 0; i < n; i++)
		s = s * 31 + (unsigned char)p[i];
	return s;
}

NOINLINE static unsigned long work(unsigned long rounds, unsigned long s)
{
	for (unsigned long i = 0; i < rounds; i++)
		s = s * 6364136223846793005ul + i;
	return s;
}

static void *thread(void *n)
{
	unsigned long *result = n;
	*result = work(30000000, *result);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	char *block = malloc(BLOCK);
	fill(table, sizeof table);
	fill(initialised, sizeof initialised);
	fill(block, BLOCK);
	for (int i = 0; i < SMALLS; i++)
		fill(smalls[i] = malloc(SMALL), SMALL);
	unsigned long s = sum(table, sizeof table) + sum(initialised, sizeof initialised) + sum(block, BLOCK);
	for (int i = 0; i < SMALLS; i++)
		s += sum(smalls[i], SMALL);
	printf("made %lu\n", s);

	s = work(60000000, s);
	if (strchr(what, 't')) {
		pthread_t all[4];
		for (int i = 0; i < 4; i++)
			pthread_create(&all[i], 0, thread, &results[i]);
		for (int i = 0; i < 4; i++)
			pthread_join(all[i], 0);
		s += results[3];
	}
	fflush(stdout);
	if (strchr(what, 'f')) {
		pid_t child = fork();
		if (child == 0) {
			printf("child %lu\n", work(1000, s));
			return 0;
		}
		waitpid(child, 0, 0);
	}
	if (strchr(what, 'e'))
		s += (unsigned long)system("exit 3");
	if (strchr(what, 'r'))
		s += sum(table, sizeof table) + sum(block, BLOCK);
	if (strchr(what, 'p'))
		printf("process %d\n", getpid());
	s = work(150000000, s);
	printf("worked %lu\n", s);
	return 7;
}
