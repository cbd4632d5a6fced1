/* Other memory where a library's text was, made writable: closedtext LIBRARY.
 * And text that nobody can read meanwhile. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE, SIZE = 4 * PAGE };

__attribute__((noinline, noipa, aligned(4096))) long hidden(long x) { return x * 3 + 1; }
__attribute__((noinline, noipa, aligned(4096))) long step(long x) { return x * 5 + 1; }

static const char *library;
static char *text; /* where the library's was */

static void load_and_close(void)
{
	void *l = dlopen(library, RTLD_NOW);
	long (*key)(long) = (long (*)(long))dlsym(l, "late_key");
	long sum = 0;
	for (int i = 0; i < 100; i++)
		sum += key(i);
	text = (char *)((uintptr_t)key & ~(uintptr_t)(PAGE - 1));
	dlclose(l);
	printf("%ld\n", sum);
}

/* A thread's stack is mapped so, and made writable then. */
static void map_there(const char *what, int prot, int flags, int fd)
{
	load_and_close();
	void *at = mmap(text, SIZE, prot, MAP_PRIVATE | MAP_FIXED_NOREPLACE | flags, fd, 0);
	int ret = mprotect(text, SIZE, RW);
	printf("%s: %d %d\n", what, at == text, ret);
	if (flags & MAP_ANONYMOUS)
		memset(text, 1, SIZE);
	munmap(text, SIZE);
}

static void *calls_step(void *arg)
{
	*(long *)arg = step(1);
	return 0;
}

/* The stack is where the text was. */
static void thread_there(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	long sum = 0;
	load_and_close();
	if (mmap(text, SIZE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != text)
		exit(1);
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, text, SIZE);
	pthread_create(&thread, &attr, calls_step, &sum);
	pthread_join(thread, 0);
	printf("thread: %ld\n", sum);
	munmap(text, SIZE);
}

/* Text is hidden, made writable, and has the program's bytes. */
static void hide(void)
{
	static const char lea[] = "\x48\x8d\x44\x7f\x01"; /* hidden: lea 1(%rdi,%rdi,2),%rax */
	long sum = hidden(1) + hidden(2);
	mprotect((void *)hidden, PAGE, PROT_NONE);
	mprotect((void *)hidden, PAGE, RW | PROT_EXEC);
	printf("own bytes: %d\n", !memcmp((void *)hidden, lea, 5));
	mprotect((void *)hidden, PAGE, PROT_READ | PROT_EXEC);
	printf("hidden: %ld\n", sum + hidden(3));
}

int main(int argc, char **argv)
{
	(void)argc;
	library = argv[1];
	int empty = memfd_create("empty", 0);
	map_there("not readable", PROT_NONE, MAP_ANONYMOUS, -1);
	map_there("readable", PROT_READ, MAP_ANONYMOUS, -1);
	map_there("behind the end of a file", PROT_READ, 0, empty);
	load_and_close();
	printf("nothing: %d\n", mprotect(text, SIZE, RW));
	thread_there();
	hide();
	load_and_close();
	for (int i = 0; i < 1000; i++)
		step(i);
	return 3;
}
