// Spends CPU time in functions in a ratio that is known: each runs the same chain of dependent
// multiplications, so that its time goes by the length of the chain and not by where the code
// lies, how it was moved, or what is counted beside the chain: a turn of each loop takes longer
// than a count.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS(n, x) __asm__ volatile(".rept " #n "\n imul $0x5bd1e995,%0,%0\n add $7,%0\n .endr" : "+r"(x)::"cc")

static volatile uint64_t sink;
static uint64_t unit; // steps of a share

// Small enough to run in its stub.
__attribute__((noinline)) uint64_t whole(uint64_t x, uint64_t steps)
{
	for (; steps >= 3; steps -= 3)
		STEPS(3, x);
	return x;
}

// Too large for that, and with a call.
__attribute__((noinline)) uint64_t jumped(uint64_t x, uint64_t steps)
{
	for (; steps >= 8; steps -= 8)
		STEPS(8, x);
	if (x == 1)
		puts("one in 2^64");
	return x;
}

// Larger than a table says of stubs: 65,535 bytes.
__attribute__((noinline)) uint64_t large(uint64_t x, uint64_t steps)
{
	for (; steps >= 8192; steps -= 8192)
		STEPS(8192, x);
	return x;
}

// Called very often: its stub's count is a part of its time.
__attribute__((noinline)) uint64_t often(uint64_t x)
{
	STEPS(4, x);
	return x;
}

__attribute__((noinline)) uint64_t calls_often(uint64_t x, uint64_t steps)
{
	for (; steps >= 4; steps -= 4)
		x = often(x);
	return x;
}

typedef uint64_t spins(uint64_t x, uint64_t steps);

struct task {
	spins *spin;
	uint64_t shares;
};

static void *run(void *arg)
{
	struct task *t = arg;
	const int parts = 16; // in turn, as far as one thread runs several
	for (int i = 0; i < parts; i++)
		sink = t->spin(sink | 3, t->shares * unit / parts);
	return 0;
}

static void in_turn(struct task *list, int n)
{
	const int parts = 16;
	for (int k = 0; k < parts; k++)
		for (int i = 0; i < n; i++)
			sink = list[i].spin(sink | 3, list[i].shares * unit / parts);
}

static void in_threads(struct task *list, int n)
{
	pthread_t threads[8];
	for (int i = 0; i < n; i++)
		if (pthread_create(&threads[i], 0, run, &list[i]))
			exit(1);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], 0);
}

static void in_forks(struct task *list, int n)
{
	for (int i = 0; i < n; i++)
		if (fork() == 0) {
			run(&list[i]);
			_exit(0);
		}
	while (wait(0) > 0)
		;
}

// Code of no file.
static spins *made(void)
{
	static const uint8_t code[] = {
		0x48, 0x69, 0xff, 0x95, 0xe9, 0xd1, 0x5b, // imul $0x5bd1e995,%rdi,%rdi
		0x48, 0x83, 0xc7, 0x07,                   // add $7,%rdi
		0x48, 0xff, 0xce,                         // dec %rsi
		0x75, 0xf0,                               // jne to the imul
		0x48, 0x89, 0xf8,                         // mov %rdi,%rax
		0xc3,
	};
	void *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		exit(1);
	memcpy(at, code, sizeof code);
	if (mprotect(at, 4096, PROT_READ | PROT_EXEC))
		exit(1);
	return (spins *)at;
}

static spins *loaded(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW);
	spins *f = lib ? (spins *)dlsym(lib, "late") : 0;
	if (!f) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return f;
}

// time HOW UNIT [FILE]
int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[1] : "turn";
	unit = argc > 2 ? strtoull(argv[2], 0, 10) : 1000000;
	struct task list[] = {{whole, 3}, {jumped, 2}, {large, 2}, {calls_often, 1}};
	int n = sizeof list / sizeof *list;
	if (!strcmp(how, "turn")) {
		in_turn(list, n);
	} else if (!strcmp(how, "threads")) {
		in_threads(list, n);
	} else if (!strcmp(how, "forks")) {
		in_forks(list, n);
	} else if (!strcmp(how, "made")) {
		list[2].spin = made();
		in_turn(list, 3);
	} else if (!strcmp(how, "late")) {
		list[2].spin = loaded(argv[3]);
		in_turn(list, 3);
	} else if (!strcmp(how, "exec")) { // goes on as itself
		run(&list[1]);
		execl(argv[0], argv[0], "turn", argv[2], (char *)0);
		return 1;
	} else if (!strcmp(how, "child")) { // that executes something else
		in_turn(list, n);
		if (fork() == 0) {
			execl(argv[0], argv[0], "turn", argv[2], (char *)0);
			_exit(1);
		}
		wait(0);
	} else if (!strcmp(how, "libc")) {
		char *text = malloc(1 << 20);
		memset(text, 'x', (1 << 20) - 1);
		text[(1 << 20) - 1] = 0;
		for (uint64_t i = 0; i < unit / 100000; i++) {
			text[i % 1000] = 'y';
			sink += strlen(text);
		}
	} else {
		return 2;
	}
	printf("%llx\n", (unsigned long long)sink);
	return 7;
}
