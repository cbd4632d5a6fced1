/* Functions that touch pages, and say which has read and which has written each last: "page N READER
 * WRITER", names with @OBJECT behind them, or -, and "at FUNCTION OFFSET": where in it the access is.
 * heat_who [threads|turns|fork|library LIBRARY ANOTHER|exec PROGRAM]: threads one after the other, and in
 * turns; a child; a library that is loaded, and another in its place; and this one in the place of itself,
 * whose pages are its own. With -DLIBRARY it is such a library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 128, USED = 40 };

#define TOUCHER(name) __attribute__((noipa)) static void name(volatile char *p)

TOUCHER(get) { (void)p[5]; }
TOUCHER(get_long) { (void)*(volatile long *)(p + 8); }
TOUCHER(put) { p[7] = 1; }
TOUCHER(put_long) { *(volatile long *)(p + 16) = 1; }
TOUCHER(add) { p[9] += 1; }
TOUCHER(get_put) { p[100] = p[11]; }
TOUCHER(get_loop)
{
	for (int i = 0; i < 50; i++)
		(void)p[i];
}
TOUCHER(put_loop)
{
	for (int i = 0; i < 50; i++)
		p[i] = (char)i;
}
TOUCHER(get_two) { (void)*(volatile long *)(p + PAGE - 4); }
TOUCHER(put_two) { *(volatile long *)(p + PAGE - 4) = 2; }
TOUCHER(put_string)
{
	void *to = (void *)p;
	unsigned long n = 16;
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(7) : "memory");
}
TOUCHER(copy_string)
{
	void *to = (void *)(p + 64);
	const void *from = (const void *)p;
	unsigned long n = 16;
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}
TOUCHER(put_flags)
{
	char is;
	__asm__ volatile("cmp %2, %2; movb $3, %0; sete %1" : "=m"(p[30]), "=r"(is) : "r"(p) : "cc");
}
TOUCHER(exchange) { __atomic_exchange_n(p + 3, 4, __ATOMIC_SEQ_CST); }
TOUCHER(many) /* all registers are in use */
{
	__asm__ volatile("movb (%0), %%al; movb %%al, 1(%0)" : : "r"(p) : "rax", "rbx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory");
}

extern const char put_at[] __attribute__((visibility("hidden"))), get_at[] __attribute__((visibility("hidden")));
__attribute__((noipa)) static void put_here(volatile char *p)
{
	__asm__ volatile("nop; nop; nop\nput_at: movb $9, %0" : "=m"(p[200]));
}
__attribute__((noipa)) static void get_here(volatile char *p)
{
	char c;
	__asm__ volatile("nop; nop\nget_at: movb %1, %0" : "=r"(c) : "m"(p[201]));
}

enum { READS = 1, WRITES = 2, TWO = 4 };
struct toucher {
	const char *name;
	void (*touch)(volatile char *);
	int does;
};

const struct toucher touchers[] = {
	{"get", get, READS}, {"get_long", get_long, READS}, {"put", put, WRITES}, {"put_long", put_long, WRITES}, {"add", add, READS | WRITES},
	{"get_put", get_put, READS | WRITES}, {"get_loop", get_loop, READS}, {"put_loop", put_loop, WRITES}, {"get_two", get_two, READS | TWO},
	{"put_two", put_two, WRITES | TWO}, {"put_string", put_string, WRITES}, {"copy_string", copy_string, READS | WRITES}, {"put_flags", put_flags, WRITES},
	{"exchange", exchange, READS | WRITES}, {"many", many, READS | WRITES}, {"put_here", put_here, WRITES}, {"get_here", get_here, READS}, {0, 0, 0},
};

#ifndef LIBRARY
static volatile char *base;
static const char *last[PAGES][2], *objects[PAGES][2];
static unsigned seed;
static pthread_barrier_t turn;

static unsigned any(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return seed / 65536 % n;
}

/* Some touch some pages; only noted: somebody else does it. */
static void work(const struct toucher *all, const char *object, unsigned begin, int times, int only_noted)
{
	unsigned count = 0;
	while (all[count].name)
		count++;
	for (seed = begin; times > 0; times--) {
		const struct toucher *t = &all[any(count)];
		unsigned page = any(USED);
		if (!only_noted)
			t->touch(base + page * PAGE);
		for (unsigned k = page; k <= page + (t->does & TWO ? 1 : 0); k++)
			for (int i = 0; i < 2; i++)
				if (t->does & (i ? WRITES : READS)) {
					last[k][i] = t->name;
					objects[k][i] = object;
				}
	}
}

static void *thread(void *n)
{
	work(touchers, "program", (unsigned)(long)n, 30, 0);
	return 0;
}

static void *turns(void *n)
{
	for (unsigned i = 0; i < 50; i++) {
		if (i % 2 == (unsigned)(long)n)
			work(touchers, "program", i, 3, 0);
		pthread_barrier_wait(&turn);
	}
	return 0;
}

static void library(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW);
	const struct toucher *all = handle ? dlsym(handle, "touchers") : 0;
	const char *name = strrchr(path, '/') + 1;
	if (!all) {
		printf("%s\n", dlerror());
		exit(4);
	}
	struct toucher *copy = calloc(100, sizeof *copy); /* names are gone with it */
	for (int i = 0; all[i].name; i++) {
		copy[i] = all[i];
		copy[i].name = strdup(all[i].name);
	}
	work(copy, name, 9, 40, 0);
	dlclose(handle);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	base = mmap((void *)0x200000000000, PAGE * PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (base == MAP_FAILED)
		return 2;
	work(touchers, "program", 1, 200, 0);
	if (!strcmp(how, "threads"))
		for (long n = 2; n < 8; n++) {
			pthread_t one;
			if (pthread_create(&one, 0, thread, (void *)n) || pthread_join(one, 0))
				return 3;
		}
	if (!strcmp(how, "turns")) {
		pthread_t all[2];
		pthread_barrier_init(&turn, 0, 2);
		for (long n = 0; n < 2; n++)
			if (pthread_create(&all[n], 0, turns, (void *)n))
				return 3;
		for (int n = 0; n < 2; n++)
			pthread_join(all[n], 0);
	}
	if (!strcmp(how, "fork")) {
		pid_t child = fork();
		work(touchers, "program", 77, 30, child != 0);
		if (child == 0)
			_exit(0);
		waitpid(child, 0, 0);
		work(touchers, "program", 78, 10, 0);
	}
	for (int i = 2; i < argc && !strcmp(how, "library"); i++)
		library(argv[i]);
	if (!strcmp(how, "exec")) {
		work(touchers, "program", 5, 500, 0);
		execl(argv[2], argv[2], (char *)0);
		return 5;
	}
	for (int k = 0; k < PAGES; k++)
		if (last[k][0] || last[k][1]) {
			printf("page %d", k);
			for (int i = 0; i < 2; i++)
				printf(last[k][i] ? " %s@%s" : " -", last[k][i], objects[k][i]);
			printf("\n");
		}
	printf("at put_here %ld\nat get_here %ld\n", (long)(put_at - (const char *)put_here), (long)(get_at - (const char *)get_here));
	return 0;
}
#endif
