/* Threads that touch pages, and say which: "page N READERS WRITERS", numbers of threads with commas
 * between them, or -. heat_threads [fork|again|many]: a child touches, too; threads one after the
 * other; more at a time than are told apart. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 128, EACH = 8, THREADS = 6, MANY = 300, READ = 100, ALL, NONE };

static volatile char *base;
static long tids[MANY + 2];
static int threads = THREADS;
static pthread_barrier_t there;

static __thread volatile char local[PAGE];

static void work(long n)
{
	volatile char *own = base + PAGE * EACH * (n % 10);
	for (int r = 0; r < 100; r++) {
		own[r] = (char)r;				      /* 0 of its own is written, */
		own[PAGE + r] += 1;				      /* 1 both, */
		(void)*(volatile long *)(own + 3 * PAGE - 4);	      /* 2 and 3 read, */
		local[r] = own[0];
	}
	void *to = (void *)(own + 4 * PAGE);			      /* 4 written by an instruction that repeats, */
	unsigned long count = 16;
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(7) : "memory");
	__asm__ volatile("cmp %1, %1; movb %%al, %0; sete %%cl" : "=m"(own[5 * PAGE]) : "r"(n) : "rcx", "cc"); /* 5 between a flag and who reads it */
	(void)base[READ * PAGE + n];
	base[ALL * PAGE + n] = 1;
}

static void *run(void *n)
{
	tids[(long)n] = syscall(SYS_gettid);
	work((long)n);
	if (threads)
		pthread_barrier_wait(&there);
	return 0;
}

static void say(int page, int readers, int writers, long first, long last)
{
	printf("page %d", page);
	for (int k = 0; k < 2; k++) {
		printf(" ");
		for (long i = first; (k ? writers : readers) && i < last; i++)
			printf("%s%ld", i > first ? "," : "", tids[i]);
		if (!(k ? writers : readers))
			printf("-");
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	pthread_t all[MANY];
	int again = !strcmp(how, "again"), forks = !strcmp(how, "fork"), n = !strcmp(how, "many") ? MANY : THREADS;
	base = mmap((void *)0x200000000000, PAGE * PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (base == MAP_FAILED)
		return 2;
	threads = again ? 0 : n;
	pthread_barrier_init(&there, 0, (unsigned)n + 1); /* none is gone, and its row free, before all have one */
	tids[0] = getpid();
	for (long i = 0; i < n; i++) {
		if (pthread_create(&all[i], 0, run, (void *)(i + 1)))
			return 3;
		if (again)
			pthread_join(all[i], 0);
	}
	if (forks) {
		pid_t child = fork();
		if (child == 0) {
			work(7);
			_exit(0);
		}
		waitpid(child, 0, 0);
		tids[n + 1] = child;
	}
	if (!again)
		pthread_barrier_wait(&there);
	for (int i = 0; i < n && !again; i++)
		pthread_join(all[i], 0);
	if (n == MANY)
		return 0;
	int last = n + 1 + forks;
	for (int i = 1; i < last; i++) {
		const int rw[6][2] = {{1, 1}, {1, 1}, {1, 0}, {1, 0}, {0, 1}, {0, 1}};
		for (int k = 0; k < 6; k++)
			say(EACH * i + k, rw[k][0], rw[k][1], i, i + 1);
	}
	say(READ, 1, 0, 1, last);
	say(ALL, 0, 1, 1, last);
	return 0;
}
