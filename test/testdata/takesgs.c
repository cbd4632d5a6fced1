/* A program that takes the GS segment where nobody can foresee it: by code that it
 * makes itself, or in a library that it loads. Arguments: how, the library. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int arch_prctl(int code, unsigned long addr);

typedef unsigned long (*reader)(void);

static unsigned long mine[16] = {11, 22, 33}, others[16] = {44, 55, 66};
static volatile int stop;

__attribute__((noinline, noclone)) int step(int x)
{
	__asm__ volatile("");
	return x + 1;
}

__attribute__((noinline, noclone)) static int busy_step(int x)
{
	__asm__ volatile("");
	return x + 2;
}

/* mov %gs:8,%rax; ret */
static reader make_reader(void)
{
	static const unsigned char code[] = {0x65, 0x48, 0x8b, 0x04, 0x25, 8, 0, 0, 0, 0xc3};
	void *at = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(at, code, sizeof code);
	return (reader)at;
}

static void ask(const char *when)
{
	unsigned long base = 1;
	long ret = arch_prctl(ARCH_GET_GS, (unsigned long)&base);
	const char *whose = base == (unsigned long)mine ? "mine" : base == (unsigned long)others ? "others" : base == 0 ? "free" : "unknown";
	printf("%s: %ld, %s\n", when, ret, whose);
	fflush(stdout);
}

static void *work(void *arg)
{
	(void)arg;
	int x = 0;
	while (!stop)
		x = busy_step(x);
	ask("thread");
	return 0;
}

static void *born_later(void *arg)
{
	printf("born later: %lu\n", ((reader)arg)());
	for (int i = 0; i < 100; i++)
		step(i);
	syscall(SYS_arch_prctl, ARCH_SET_GS, others);
	ask("born later");
	printf("born later: %lu\n", ((reader)arg)());
	return 0;
}

static reader take(const char *how, const char *library)
{
	if (!strcmp(how, "made")) {
		arch_prctl(ARCH_SET_GS, (unsigned long)mine);
		return make_reader();
	}
	if (!strcmp(how, "syscall")) {
		syscall(SYS_arch_prctl, ARCH_SET_GS, mine);
		return make_reader();
	}
	void *handle = dlopen(library, RTLD_NOW);
	void (*set)(unsigned long *) = (void (*)(unsigned long *))dlsym(handle, "set");
	set(mine);
	return (reader)dlsym(handle, "get");
}

int main(int argc, char **argv)
{
	pthread_t t;
	pthread_create(&t, 0, work, 0);
	ask("start");
	printf("to 0: %d\n", arch_prctl(ARCH_SET_GS, 0));
	ask("set to 0");
	for (int i = 0; i < 1000; i++)
		step(i);
	reader get = take(argv[1], argc > 2 ? argv[2] : "");
	for (int i = 0; i < 500; i++)
		step(i);
	ask("taken");
	printf("read %lu\n", get());
	pid_t child = fork();
	if (child == 0) {
		printf("child read %lu\n", get());
		for (int i = 0; i < 50; i++)
			step(i);
		ask("child");
		_exit(fflush(stdout));
	}
	waitpid(child, 0, 0);
	pthread_t later;
	pthread_create(&later, 0, born_later, (void *)get);
	pthread_join(later, 0);
	stop = 1;
	pthread_join(t, 0);
	ask("end");
	for (int i = 3; i < 16; i++)
		if (mine[i] || others[i])
			printf("changed %d\n", i);
	return 0;
}
