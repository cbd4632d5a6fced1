/* Calls whose numbers are known, for each caller, callee and kind, and how many of a function's
 * calls come by no site that can be counted. Arguments: threads, rounds of each, and `kill`,
 * to be ended by SIGKILL, or `fork`, to do all in a child, too. It prints, for N threads or
 * processes in all, what has to be found: caller callee kind calls. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALONE __attribute__((noipa))
/* Too long to move as a whole. */
#define LONG __asm__ volatile(".rept 80\n\tnop\n\t.endr")

static ALONE long leaf(long n) { LONG; return n + 1; }
static ALONE long other(long n) { LONG; return n + 2; }

/* Two sites of one callee, and one of another. */
static ALONE long calls(long n)
{
	LONG;
	n = leaf(n);
	n ^= 1;
	n = leaf(n);
	return other(n) ^ 3;
}

static ALONE long tails(long n)
{
	LONG;
	if (n & 1)
		return leaf(n ^ 2);
	LONG;
	return other(n);
}

static ALONE long recurses(long n)
{
	LONG;
	long deeper = n ? recurses(n - 1) : 0;
	__asm__ volatile("" : "+r"(deeper)); /* else it is a loop */
	return deeper + 1;
}

static ALONE long odd(long n);
static ALONE long even(long n) { LONG; return n ? odd(n - 1) ^ 1 : 1; }
static ALONE long odd(long n) { LONG; return n ? even(n - 1) ^ 1 : 0; }

static ALONE long points(long (*volatile *f)(long), long n) { LONG; return (*f)(n) + 1; }

/* Its calls of rare are in a cold part. */
__attribute__((cold, noipa)) static long rare(long n) { LONG; LONG; return n * 2; }
static ALONE long parted(long n)
{
	LONG;
	if (__builtin_expect((n & 63) == 63, 0)) {
		n ^= rare(n);
		__asm__ volatile("" : "+r"(n));
		n += rare(n);
	}
	return n + 1;
}

/* Short enough to run in its stub, jump and all. */
static ALONE long moved(long n) { return leaf(n + 7); }

/* Its first instruction is the call. */
long first(long n);
__asm__(".text\n.type first, @function\nfirst:\ncall sits\ncall sits\nret\n.size first, .-first\n"
	".type sits, @function\nsits:\nmov %rdi, %rax\n.rept 80\nnop\n.endr\nret\n.size sits, .-sits\n");

/* It is called by what reads flags that its caller set. */
long flags(long n);
long carries(long n);
__asm__(".text\n.type flags, @function\nflags:\nmov $0, %eax\nadc %rdi, %rax\n.rept 80\nnop\n.endr\nret\n.size flags, .-flags\n"
	".type carries, @function\ncarries:\n.rept 80\nnop\n.endr\nstc\ncall flags\nnop\nclc\ncall flags\nret\n.size carries, .-carries\n");

static volatile long sum;

enum { DEPTH = 5 };

static ALONE void work(long rounds)
{
	static long (*volatile pointer)(long) = leaf;
	long s = 0;
	for (long i = 0; i < rounds; i++) {
		s += calls(i);
		s += tails(i);
		s += recurses(DEPTH);
		s += even(DEPTH);
		s += points(&pointer, i);
		s += moved(i);
		s += parted(i);
		s += first(i);
		s += carries(1);
	}
	__atomic_add_fetch(&sum, s, __ATOMIC_RELAXED);
}

static long rounds;
static pthread_barrier_t barrier;

static void *thread(void *number)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET((int)((long)number % sysconf(_SC_NPROCESSORS_ONLN)), &set);
	sched_setaffinity(0, sizeof set, &set);
	pthread_barrier_wait(&barrier);
	work(rounds);
	return 0;
}

static void all(long threads)
{
	pthread_t *t = malloc((size_t)threads * sizeof *t);
	pthread_barrier_init(&barrier, 0, (unsigned)threads);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&t[i], 0, thread, (void *)i))
			exit(2);
	for (long i = 0; i < threads; i++)
		pthread_join(t[i], 0);
}

int main(int argc, char **argv)
{
	long threads = atol(argv[1]), times = 1;
	const char *how = argc > 3 ? argv[3] : "";
	rounds = atol(argv[2]);
	if (!strcmp(how, "fork")) {
		times = 2;
		pid_t child = fork();
		if (child == 0) {
			all(threads);
			_exit(0);
		}
		int status;
		if (waitpid(child, &status, 0) != child || status)
			return 3;
	}
	all(threads);
	long n = times * threads * rounds, odds = times * threads * (rounds / 2);
	printf("calls leaf call %ld\ncalls other call %ld\n", 2 * n, n);
	printf("tails leaf tail_call %ld\ntails other tail_call %ld\n", odds, n - odds);
	printf("recurses recurses call %ld\nwork recurses call %ld\n", DEPTH * n, n);
	printf("even odd call %ld\nodd even call %ld\nwork even call %ld\n", (DEPTH + 1) / 2 * n, DEPTH / 2 * n, n);
	printf("work calls call %ld\nwork tails call %ld\nwork points call %ld\nwork moved call %ld\nwork first call %ld\nwork carries call %ld\n", n, n, n, n, n, n);
	printf("moved leaf tail_call %ld\n", n);
	printf("work parted call %ld\nparted rare call %ld\n", n, 2 * times * threads * (rounds / 64));
	printf("first sits call %ld\ncarries flags call %ld\n", 2 * n, 2 * n);
	printf("- leaf elsewhere %ld\n", n); /* by the pointer */
	printf("thread work call %ld\n- thread elsewhere %ld\n", times * threads, times * threads);
	fflush(stdout);
	if (!strcmp(how, "kill"))
		raise(SIGKILL);
	return 0;
}
