/* hooksmany [HOW]: hooks the first quarter of many functions, one at a time, each in pages
 * that are made writable for that alone. The second half calls the first; the functions
 * with odd numbers among it call none that is hooked.
 *
 *	threads	these are called by other threads meanwhile
 *	copy	the callers' text is put back as it was before, and one more is hooked;
 *		only these call then
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ROUND = 64, THREADS = 2, CALM_ROUNDS = 300 };

extern long (*many[])(long);
extern int many_count;

__attribute__((noipa)) static long other(long x) { return x + 5; }

static long call(int from, int step)
{
	long sum = 0;
	for (int i = from; i < many_count; i += step)
		sum += many[i](i & 15);
	return sum;
}

static void *calls_calm(void *sum)
{
	for (int i = 0; i < CALM_ROUNDS; i++)
		*(long *)sum += call(many_count / 2 + 1, 2);
	return 0;
}

static void hook(char *at)
{
	enum { JUMP = 5, PAGE = 4096 };
	char jump[JUMP] = {(char)0xe9}, *low = (char *)((uintptr_t)at & -PAGE), *high = (char *)(((uintptr_t)at + JUMP + PAGE - 1) & -PAGE);
	int distance = (int)((char *)other - (at + JUMP));
	memcpy(jump + 1, &distance, sizeof distance);
	mprotect(low, (size_t)(high - low), PROT_READ | PROT_WRITE | PROT_EXEC);
	memcpy(at, jump, JUMP);
	mprotect(low, (size_t)(high - low), PROT_READ | PROT_EXEC);
}

/* Whole pages of callers' text. */
static char *callers(size_t *size)
{
	enum { PAGE = 4096 };
	uintptr_t low = ((uintptr_t)many[many_count / 2] + PAGE) & -PAGE, high = (uintptr_t)many[many_count - 1] & -PAGE;
	*size = high - low;
	return (char *)low;
}

static char *copied(void)
{
	size_t size;
	char *from = callers(&size), *copy = malloc(size);
	return memcpy(copy, from, size);
}

static void put_back(const char *copy)
{
	size_t size;
	char *to = callers(&size);
	mmap(to, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memcpy(to, copy, size);
	mprotect(to, size, PROT_READ | PROT_EXEC);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	int threads = strcmp(how, "threads") ? 0 : THREADS;
	char *copy = strcmp(how, "copy") ? 0 : copied();
	pthread_t t[THREADS];
	long sums[THREADS] = {0}, sum = call(many_count / 2, 1);
	for (int i = 0; i < threads; i++)
		pthread_create(&t[i], 0, calls_calm, &sums[i]);
	for (int i = 0; i < many_count / 4; i++) {
		hook((char *)many[i]);
		if (i % ROUND == ROUND - 1)
			sum += call(many_count / 2, 1);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(t[i], 0);
		sum += sums[i];
	}
	if (copy) {
		put_back(copy);
		hook((char *)many[3 * many_count / 8]);
	}
	printf("%ld, %ld\n", sum, copy ? call(many_count / 2 + 1, 2) : call(many_count / 2, 1));
	return 0;
}
