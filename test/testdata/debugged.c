/* A program to debug (test/tools_gdb_test.go). With an argument it waits until a
 * debugger has attached to it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__attribute__((noinline)) int leaf(int x)
{
	return x * 3 + 1;
}

__attribute__((noinline)) int none(void)
{
	return 7;
}

__attribute__((noinline)) int sum(const int *of, int n)
{
	int total = 0;
	for (int i = 0; i < n; i++)
		total += of[i];
	return total;
}

__attribute__((noinline)) int middle(int x)
{
	int a = leaf(x);
	int b = leaf(a + 1);
	return a + b + none();
}

__attribute__((noinline)) int deep(int n)
{
	if (n == 0)
		return middle(5);
	return deep(n - 1) + 1;
}

static int debugged(void)
{
	char line[256];
	int by = 0;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "TracerPid:", 10))
			by = atoi(line + 10);
	if (f)
		fclose(f);
	return by != 0;
}

int main(int argc, char **argv)
{
	int rounds = 3, all[8], total = 0;
	for (int tries = 0; argc > 1 && tries < 20000 && !debugged(); tries++)
		nanosleep(&(struct timespec){0, 1000000}, 0);
	for (int i = 0; i < rounds; i++) {
		for (int k = 0; k < 8; k++)
			all[k] = i + k;
		total += deep(4) + sum(all, 8);
	}
	printf("%d\n", total);
	return 0;
}
