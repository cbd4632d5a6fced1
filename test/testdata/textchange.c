/* A program that changes its own text: textchange HOW.
 *
 *	keys	immediates of functions of all kinds, a page at a time
 *	whole	all of the text, which must then be the file's
 *	threads	functions that other threads are calling
 *	fork	in a child
 *	handler	in a signal handler
 *	late	of a library that is loaded by dlopen: its path follows
 *
 * Each prints what its functions return.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE, RX = PROT_READ | PROT_EXEC };

#define OWN_PAGE __attribute__((noinline, noipa, aligned(4096)))

/* The immediate is the last 4 bytes of a mov that is found by its value. */
#define KEY(name, value, rest) \
	OWN_PAGE long name(long x) \
	{ \
		int r; \
		__asm__ volatile("mov $" #value ", %0" : "=r"(r)); \
		rest \
	}

KEY(small, 0x11111111, return r + x * 0;)
KEY(large, 0x22222222, long s = 0; for (long i = 0; i < x; i++) s += i * x ^ r; printf("%s", s == 1 ? " " : ""); return s;)
KEY(loops, 0x33333333, do x -= r; while (x > 0); return x;)
OWN_PAGE long calm(long x) { return x * 3 + 1; }

/* Its entry is on the page in front of the one that is changed. */
long edge(long);
extern char edge_behind[];
__asm__(".text\n.p2align 12\n.skip 4096-12, 0x90\n.globl edge\n.type edge, @function\nedge: lea 1(%rdi),%rax\n nop\nnop\nnop\nnop\nnop\nnop\nnop\n"
	".globl edge_behind\nedge_behind: add $0x44444444,%rax\nret\n.size edge, .-edge\n.p2align 12\n");

long evict_wall_before(long), evict_wall_behind(long), evict_loop(long);

static void protect(void *at, size_t size, int prot)
{
	uintptr_t low = (uintptr_t)at & ~(uintptr_t)(PAGE - 1);
	if (mprotect((void *)low, (uintptr_t)at + size - low, prot) != 0) {
		perror("mprotect");
		exit(1);
	}
}

/* Looks for the value in a function once that is writable, and changes it. */
static void set(void *function, int old, int new)
{
	char *p = function;
	protect(function, 64, RW | PROT_EXEC);
	while (p < (char *)function + 64 && memcmp(p, &old, 4))
		p++;
	if (p == (char *)function + 64) {
		printf("no immediate %x\n", old);
		exit(1);
	}
	memcpy(p, &new, 4);
	protect(function, 64, RX);
}

static long run_all(int times)
{
	long sum = 0;
	for (int i = 0; i < times; i++)
		sum += small(i) + large(i % 9) + loops(i) + edge(i) + calm(i);
	return sum;
}

static void keys(void)
{
	printf("%ld\n", run_all(500));
	set(large, 0x22222222, 3);
	printf("%ld\n", run_all(300));
	set(small, 0x11111111, 42);
	set(loops, 0x33333333, 7);
	set(edge_behind, 0x44444444, 5);
	printf("%ld\n", run_all(200));
}

/* ---- whole ------------------------------------------------------------ */

static int compare(struct dl_phdr_info *info, size_t size, void *file)
{
	(void)size;
	int fd = open(file, O_RDONLY);
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		char *text = (char *)info->dlpi_addr + p->p_vaddr, *bytes = malloc(p->p_filesz);
		if (pread(fd, bytes, p->p_filesz, (off_t)p->p_offset) != (ssize_t)p->p_filesz)
			exit(1);
		protect(text, p->p_memsz, RW | PROT_EXEC);
		for (size_t k = 0; k < p->p_filesz; k++)
			if (text[k] != bytes[k]) {
				printf("differs at %zx\n", p->p_vaddr + k);
				k += 15;
			}
		protect(text, p->p_memsz, RX);
		free(bytes);
	}
	close(fd);
	return 1; /* the executable only */
}

static long evicted(void)
{
	long sum = 0;
	for (int i = 0; i < 500; i++)
		sum += evict_loop(i % 7) + evict_wall_before(i) - evict_wall_behind(sum);
	return sum;
}

static void whole(void)
{
	printf("%ld %ld\n", run_all(500), evicted());
	dl_iterate_phdr(compare, "/proc/self/exe");
	printf("%ld %ld\n", run_all(500), evicted());
}

/* ---- threads ---------------------------------------------------------- */

enum { THREADS = 3 };
static volatile int over;

static void *calls(void *arg)
{
	do
		*(long *)arg = run_all(3) + evict_loop(5) + evict_wall_before(2);
	while (!over);
	return 0;
}

static void threads(void)
{
	pthread_t t[THREADS];
	long last[THREADS];
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], 0, calls, &last[i]);
	usleep(3000);
	/* None of these bytes changes: threads that run there may not see halves. */
	void *all[] = {large, evict_loop, small, edge_behind, loops, calls, calm};
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
		protect(all[i], 16, RW | PROT_EXEC);
		usleep(1000);
		protect(all[i], 16, RX);
	}
	over = 1;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], 0);
		printf("%ld\n", last[i]);
	}
}

/* ---- others ----------------------------------------------------------- */

static void in_child(void)
{
	run_all(100);
	if (fork() == 0) {
		set(small, 0x11111111, 42);
		printf("child %ld\n", run_all(100));
		exit(0);
	}
	int status;
	wait(&status);
	printf("parent %ld, child ended with %x\n", run_all(100), status);
}

static void handler(int sig)
{
	(void)sig;
	set(small, 0x11111111, 6);
}

static void by_handler(void)
{
	signal(SIGUSR1, handler);
	printf("%ld\n", run_all(100));
	raise(SIGUSR1);
	printf("%ld\n", run_all(100));
}

static void late(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	long (*key)(long) = library ? (long (*)(long))dlsym(library, "late_key") : 0;
	if (!key)
		exit(1);
	long sum = 0;
	for (int i = 0; i < 100; i++)
		sum += key(i);
	printf("%ld\n", sum);
	set((void *)key, 0x55555555, 9);
	for (int i = 0; i < 100; i++)
		sum += key(i);
	printf("%ld\n", sum);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	setvbuf(stdout, 0, _IONBF, 0);
	if (!strcmp(how, "keys"))
		keys();
	else if (!strcmp(how, "whole"))
		whole();
	else if (!strcmp(how, "threads"))
		threads();
	else if (!strcmp(how, "fork"))
		in_child();
	else if (!strcmp(how, "handler"))
		by_handler();
	else if (!strcmp(how, "late"))
		late(argv[2]);
	return 0;
}
