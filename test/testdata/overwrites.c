/* A program that writes a jump over an entry: overwrites HOW.
 *
 *	store	into text that is writable from the start
 *	pipe	into text that it makes writable, when a pipe has its file's name
 *	lock	into text that it has locked
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOT __attribute__((noipa, section(".hot, \"awx\", @progbits#")))

HOT long hot(long x) { return x * 3 + 1; }
HOT long other(long x) { return x * 7 - 2; }
__attribute__((noipa)) long cool(long x) { return x * 5 + 1; }
__attribute__((noipa)) long another(long x) { return x * 9 - 2; }
__attribute__((noipa)) long calls_both(long x) { return hot(x) + cool(x + 1); }

static void write_jump(void *at, void *to)
{
	char jump[5] = {(char)0xe9};
	int distance = (int)((char *)to - ((char *)at + 5));
	memcpy(jump + 1, &distance, 4);
	memcpy(at, jump, 5);
}

static void run_all(void)
{
	long sum = 0;
	for (long i = 0; i < 100; i++)
		sum += calls_both(i);
	printf("%ld\n", sum);
	fflush(stdout);
}

/* The file is a copy that the test has made. */
static int become_pipe(const char *path)
{
	return unlink(path) == 0 && mkfifo(path, 0600) == 0;
}

static long locked(void)
{
	char line[256];
	long kb = -1;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "VmLck: %ld", &kb);
	return kb;
}

static void overwrite(void)
{
	char *low = (char *)((uintptr_t)cool & -4096);
	mprotect(low, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
	write_jump(cool, another);
	mprotect(low, 8192, PROT_READ | PROT_EXEC);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "store";
	run_all();
	if (!strcmp(how, "pipe") && become_pipe(argv[0])) {
		overwrite();
		unlink(argv[0]);
	} else if (!strcmp(how, "lock")) {
		mlock((char *)((uintptr_t)cool & -4096), 8192);
		long before = locked();
		overwrite();
		printf("%ld kB, then %ld\n", before, locked());
	} else {
		write_jump(hot, other);
	}
	run_all();
	return 0;
}
